"""Runs a pool on this machine: its files, its engine and its sidecar, from start to end."""

import json
import os
import secrets
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from justitia_api.config import PoolConfig
from justitia_cli.local.conditions import in_effect
from justitia_cli.local.converge import PoolObjects, converge
from justitia_cli.local.errors import LocalError
from justitia_cli.local.launch import Launch, LocalModel, Ports, engine_launch, plugged, sidecar_launch
from justitia_cli.local.ports import require_free_port
from justitia_cli.local.processes import ManagedProcess
from justitia_cli.local.session import PLUGIN_FOLDER
from justitia_cli.runtime import EngineRuntime
from justitia_operator.build.documents import CONFIG_FILE, KEYS_FILE
from justitia_operator.world.objects import Json
from justitia_sidecar.deliver import deliver

ENGINE_START_SECONDS = 600.0
SIDECAR_START_SECONDS = 30.0
POLL_SECONDS = 0.2
HEARTBEAT_SECONDS = 5.0

Progress = Callable[[str], None]


class LocalPool:
    """The engine and the sidecar of one pool. A context manager that leaves no process behind.

    Documents and logs go to `directory`. `sidecar_environment` is added to the sidecar's variables. The engine looks
    for modules in `engine_path` first. Each method raises LocalError, with one line that says what is wrong.
    """

    def __init__(  # noqa: PLR0917
        self,
        documents: Sequence[Json],
        directory: Path,
        runtime: EngineRuntime,
        model: LocalModel,
        ports: Ports,
        progress: Progress,
        *,
        engine_arguments: Iterable[str] = (),
        engine_path: Sequence[Path] = (),
        sidecar_environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._directory = directory
        self._plugin = directory / PLUGIN_FOLDER
        self._runtime = runtime
        self._model = model
        self._ports = ports
        self._progress = progress
        self._engine_arguments = tuple(engine_arguments)
        self._engine_path = engine_path
        self._sidecar_environment = dict(sidecar_environment)
        self._root = secrets.token_hex(32)
        self._objects: PoolObjects = converge(documents, None, self._root)
        self._engine: ManagedProcess | None = None
        self._sidecar: ManagedProcess | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._ports.public}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self._ports.admin}"

    @property
    def config(self) -> PoolConfig:
        return self._objects.config

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in (self._engine, self._sidecar) if process is not None]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, on_spawn: Callable[[list[int]], None]) -> None:
        """Start engine and sidecar, and wait until requests are served. `on_spawn` gets the processes as they start."""
        require_free_port(self._ports.public, "OpenAI API", "--port")
        require_free_port(self._ports.admin, "sidecar's admin API", "--admin-port")
        require_free_port(self._ports.engine, "engine", "--engine-port")
        self._write_documents()
        self._engine = self._spawn("engine", self._engine_launch())
        on_spawn(self.pids)
        self._await("engine", f"http://127.0.0.1:{self._ports.engine}/health", ENGINE_START_SECONDS)
        self.start_sidecar()
        on_spawn(self.pids)

    def start_sidecar(self) -> None:
        """Start the sidecar. It remembers nothing of an earlier one."""
        launch = sidecar_launch(
            self._objects.deployment,
            self._directory / CONFIG_FILE,
            self._directory / KEYS_FILE,
            self._ports,
            self._plugin,
        )
        launch = replace(launch, environment=launch.environment | self._sidecar_environment)
        self._sidecar = self._spawn("sidecar", launch)
        self._await("sidecar", f"{self.admin_url}/readyz", SIDECAR_START_SECONDS)

    def stop_sidecar(self) -> None:
        if self._sidecar is not None:
            self._sidecar.stop()
            self._sidecar = None

    def stop(self) -> None:
        """End both processes, with all their children."""
        self.stop_sidecar()
        if self._engine is not None:
            self._engine.stop()
            self._engine = None

    def apply(self, documents: Sequence[Json]) -> bool:
        """Put changed documents into effect. Returns False if nothing changes. The engine's part must not change."""
        before = self._objects
        self._objects = converge(documents, before.config, self._root)
        if self._objects.deployment["spec"] != before.deployment["spec"]:
            self._objects = before
            raise LocalError("the engine's part of the pool has changed: run `justitia local down`, then `up` again")
        self._write_documents()
        return (self._objects.config, self._objects.keys) != (before.config, before.keys)

    def check(self) -> None:
        """Raises LocalError if a process has ended."""
        for process in (self._engine, self._sidecar):
            if process is not None:
                process.fail_if_ended()

    def status(self) -> dict[str, Any]:
        """The status that the sidecar reports. Raises OSError if it does not answer within five seconds."""
        with urllib.request.urlopen(f"{self.admin_url}/internal/status", timeout=5) as answer:
            status: dict[str, Any] = json.load(answer)
        return status

    def await_policy(self) -> None:
        """Wait until requests are ordered as configured, inside the engine or in front of it."""
        began = time.monotonic()
        while found := [c for c in self.status()["conditions"] if not in_effect(c)]:
            self.check()
            if time.monotonic() - began > SIDECAR_START_SECONDS:
                raise LocalError(f"{found[0]['type']} is {found[0]['reason']}: {found[0]['message']}")
            time.sleep(POLL_SECONDS)

    def _engine_launch(self) -> Launch:
        deployment = self._objects.deployment
        if plugged(deployment):
            deliver(self._plugin)
        arguments, path = self._engine_arguments, self._engine_path
        return engine_launch(deployment, self._runtime, self._model, self._ports, arguments, self._plugin, path)

    def _write_documents(self) -> None:
        _write_private(self._directory / CONFIG_FILE, self._objects.config.model_dump_json(by_alias=True, indent=2))
        _write_private(self._directory / KEYS_FILE, self._objects.keys.model_dump_json(by_alias=True))

    def _spawn(self, name: str, launch: Launch) -> ManagedProcess:
        return ManagedProcess(name, launch.command, launch.environment, self._directory / f"{name}.log")

    def _await(self, name: str, url: str, limit: float) -> None:
        """Poll until the URL answers 200, and say every few seconds how long that takes."""
        began = told = time.monotonic()
        while not _answers(url):
            self.check()
            now = time.monotonic()
            if now - began > limit:
                raise LocalError(f"the {name} was not ready after {limit:.0f} s: see {self._directory}/{name}.log")
            if now - told >= HEARTBEAT_SECONDS:
                told = now
                self._progress(f"waiting for the {name}, {now - began:.0f} s")
            time.sleep(POLL_SECONDS)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def _write_private(path: Path, text: str) -> None:
    """Replace the file as a whole. Only the user may read it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(temporary).replace(path)
