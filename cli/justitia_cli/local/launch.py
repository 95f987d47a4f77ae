"""Turns the containers of a pool's Deployment into commands on this machine.

All differences from a pod are here: paths and ports, the model's location, and what vLLM needs on a CPU.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from justitia_api.engine import is_ours
from justitia_api.wire import ADMIN_PORT, ENGINE_PORT, PUBLIC_PORT
from justitia_cli.runtime import EngineRuntime
from justitia_operator.build.pods import PLUGIN_DIRECTORY
from justitia_operator.world.names import DELIVERY_CONTAINER, SIDECAR_CONTAINER
from justitia_operator.world.objects import Json

CPU_ARGUMENTS = ("--dtype=float32", "--enforce-eager")
NOT_LOCAL = (
    "JUSTITIA_CONTROL_",
    "JUSTITIA_PEER_",
    "JUSTITIA_PICKER_",
    "JUSTITIA_PUBLIC_ADDRESS",
    "JUSTITIA_HANG_FILE",
    "JUSTITIA_SAMPLES_FILE",
    "JUSTITIA_STORE_URL",
    "JUSTITIA_ARTIFACTS_FOLDER",
    "AWS_",
)
TINY_MODEL_ARGUMENTS = ("--load-format=dummy", "--max-model-len=2048")


@dataclass(frozen=True)
class Ports:
    """Ports of the loopback interface: the OpenAI API, the sidecar's admin API, the engine."""

    public: int = PUBLIC_PORT
    admin: int = ADMIN_PORT
    engine: int = ENGINE_PORT


@dataclass(frozen=True)
class LocalModel:
    """A model in a folder, or by its name on a hub. `tiny` says that it is made here, without weights."""

    location: str
    tiny: bool


@dataclass(frozen=True)
class Launch:
    """A command, and what it adds to the environment."""

    command: tuple[str, ...]
    environment: dict[str, str]


def engine_launch(  # noqa: PLR0917
    deployment: Json,
    runtime: EngineRuntime,
    model: LocalModel,
    ports: Ports,
    extra: Iterable[str],
    plugin: Path,
    path: Sequence[Path] = (),
) -> Launch:
    """The engine's container as a command. `plugin` is the folder in place of the plug-in's volume. Modules in `path`
    come before it.
    """
    container = _container(deployment, "containers", "engine")
    changed = {f"--port={ENGINE_PORT}": f"--port={ports.engine}"}
    arguments = [changed.get(argument, argument) for argument in container["args"]]
    arguments = [f"--model={model.location}" if a.startswith("--model=") else a for a in arguments]
    if runtime.device == "cpu":
        arguments += CPU_ARGUMENTS
    environment = dict(runtime.environment) | _of_user(container) | _of_plugin(container, plugin)
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(map(str, (*path, plugin)))
    if model.tiny:
        arguments += TINY_MODEL_ARGUMENTS
        environment["HF_HUB_OFFLINE"] = "1"
    return Launch((str(runtime.python), *arguments, *extra), environment)


def sidecar_launch(deployment: Json, config: Path, keys: Path, ports: Ports, plugin: Path) -> Launch:
    """The sidecar's container as a command. `plugin` is the folder in place of the plug-in's volume."""
    container = _container(deployment, "initContainers", SIDECAR_CONTAINER)
    # A local sidecar reads its documents from files. It has no control port, no other engines, no liveness probe and no
    # training.
    inherited = {v["name"]: v["value"] for v in container["env"] if not v["name"].startswith(NOT_LOCAL)}
    environment = inherited | {
        "JUSTITIA_CONFIG_FILE": str(config),
        "JUSTITIA_KEYS_FILE": str(keys),
        "JUSTITIA_ENGINE_URL": f"http://127.0.0.1:{ports.engine}",
        "JUSTITIA_HOST": "127.0.0.1",
        "JUSTITIA_PORT": str(ports.public),
        "JUSTITIA_ADMIN_HOST": "127.0.0.1",
        "JUSTITIA_ADMIN_PORT": str(ports.admin),
        **_of_plugin(container, plugin),
    }
    return Launch((sys.executable, *container["command"][1:]), environment)


def plugged(deployment: Json) -> bool:
    """Whether the engine loads the plug-in."""
    return any(c["name"] == DELIVERY_CONTAINER for c in deployment["spec"]["template"]["spec"]["initContainers"])


def _of_user(container: Json) -> dict[str, str]:
    """The variables of the pool's engine.env, without those from Secrets."""
    return {
        variable["name"]: variable["value"]
        for variable in container["env"]
        if "value" in variable and not is_ours(variable["name"])
    }


def _of_plugin(container: Json, plugin: Path) -> dict[str, str]:
    """The variables with paths in the plug-in's volume, as paths in the folder in its place."""
    values = {variable["name"]: variable.get("value", "") for variable in container["env"]}
    return {
        name: value.replace(PLUGIN_DIRECTORY, str(plugin), 1)
        for name, value in values.items()
        if value.startswith(PLUGIN_DIRECTORY)
    }


def _container(deployment: Json, group: str, name: str) -> Json:
    found: Json = next(c for c in deployment["spec"]["template"]["spec"][group] if c["name"] == name)
    return found
