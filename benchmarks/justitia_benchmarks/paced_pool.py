"""A pool of real sidecars on this machine, each in front of an engine that takes its time (`paced_engine.py`)."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import aiohttp

from justitia_api.conditions import ConditionType
from justitia_api.config import (
    ApplicationConfig,
    KeyEntry,
    KeyTable,
    PoolConfig,
    SchedulingConfig,
    TenantConfig,
    ValkeyConfig,
    key_digest,
)
from justitia_api.status import PoolStatus
from justitia_api.wire import PEER_CERTIFICATE_FILE, PEER_KEY_FILE, PEERS_FILE
from justitia_cli.local.ports import free_ports
from justitia_operator.build.credentials import make_peer_credentials, period_at
from justitia_vocabulary.units import Seconds, TenantId

PEPPER = "0f" * 16
ROOT = "0f" * 32
MODEL = "paced"
START_WITHIN: Seconds = 180.0
POLL: Seconds = 0.1


def key_of(tenant: str) -> str:
    return f"sk-a-long-enough-key-of-{tenant}"


def write_peer_credentials(folder: Path, pool: str) -> None:
    """The files with which a sidecar of that pool shows the others that it is one of them."""
    made = make_peer_credentials(ROOT, pool, period_at(pool, datetime.now(UTC)))
    (folder / PEER_CERTIFICATE_FILE).write_text(made.certificate)
    (folder / PEER_KEY_FILE).write_text(made.private_key)
    (folder / PEERS_FILE).write_text(made.accepted)


def pool_config(weights: Mapping[str, float], valkey: ValkeyConfig | None, generation: int = 1) -> PoolConfig:
    """One application for each tenant."""
    return PoolConfig(
        generation=generation,
        namespace="ns",
        name="pool",
        model=MODEL,
        scheduling=SchedulingConfig(enforcement="Engine"),
        tenants=tuple(TenantConfig(name=name, weight=weight) for name, weight in weights.items()),
        applications=tuple(ApplicationConfig(namespace="ns", name=name, tenant=name) for name in weights),
        valkey=valkey,
    )


class Reached(Protocol):
    """What clients send their requests to."""

    @property
    def url(self) -> str: ...


@dataclass
class Pod:
    """A sidecar and its engine."""

    folder: Path
    port: int
    admin: int
    engine: "subprocess.Popen[bytes]"
    environment: Mapping[str, str]
    """The sidecar's."""
    picked: bool = False
    """Whether it has an endpoint picker."""

    def __post_init__(self) -> None:
        self.sidecar = self._start_sidecar()
        self.picker = self._start_picker() if self.picked else None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/completions"

    async def status(self, client: aiohttp.ClientSession) -> PoolStatus:
        """What the sidecar says. Raises aiohttp.ClientError."""
        async with client.get(f"http://127.0.0.1:{self.admin}/internal/status") as answer:
            answer.raise_for_status()
            return PoolStatus.model_validate_json(await answer.read())

    async def passed_on(self, client: aiohttp.ClientSession) -> int:
        """How many requests the sidecar has had served by other engines. Raises aiohttp.ClientError."""
        sharing = (await self.status(client)).sharing
        return 0 if sharing is None else sharing.passed_on

    def kill(self) -> None:
        """End both at once, as a node does that goes away."""
        for process in (self.sidecar, self.engine, self.picker):
            if process is not None:
                process.kill()
                process.wait()

    def restart_sidecar(self) -> None:
        """Kill the sidecar, and start another one in its place."""
        self.sidecar.kill()
        self.sidecar.wait()
        self.sidecar = self._start_sidecar()

    @property
    def picker_port(self) -> int:
        return int(self.environment["JUSTITIA_PICKER_PORT"])

    def _start_sidecar(self) -> "subprocess.Popen[bytes]":
        return _start(self.folder, "justitia_sidecar", [], self.environment)

    def _start_picker(self) -> "subprocess.Popen[bytes]":
        return _start(self.folder, "justitia_sidecar.picker", [], self.environment)


class PacedPool:
    """Pods of one configuration. `engine` are the options of `paced_engine`. With `passes_on` a request may be served
    by another pod than the one that it reaches. With `picked` each pod has an endpoint picker.
    """

    def __init__(
        self,
        config: PoolConfig,
        folder: Path,
        engine: Sequence[str] = (),
        *,
        passes_on: bool = True,
        picked: bool = False,
    ) -> None:
        self._passes_on = passes_on
        self._picked = picked
        self.pods: list[Pod] = []
        self._config = config
        self._folder = folder
        self._options = engine
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self) -> Pod:
        """Start one more pod. It may not serve yet."""
        folder = self._folder / f"pod-{len(self.pods)}"
        folder.mkdir()
        (folder / "pool.json").write_text(self._config.model_dump_json(by_alias=True))
        entries = tuple(
            KeyEntry(digest=key_digest(PEPPER, key_of(tenant.name).encode()), tenant=tenant.name)
            for tenant in self._config.tenants
        )
        (folder / "keys.json").write_text(KeyTable(pepper=PEPPER, keys=entries).model_dump_json(by_alias=True))
        port, admin, peer_port, engine_port, picker_port = free_ports(5)
        environment = os.environ | {
            "JUSTITIA_CONFIG_FILE": str(folder / "pool.json"),
            "JUSTITIA_KEYS_FILE": str(folder / "keys.json"),
            "JUSTITIA_ENGINE_URL": f"http://127.0.0.1:{engine_port}",
            "JUSTITIA_ENGINE_SOCKET": str(folder / "engine.sock"),
            "JUSTITIA_HOST": "127.0.0.1",
            "JUSTITIA_PORT": str(port),
            "JUSTITIA_ADMIN_HOST": "127.0.0.1",
            "JUSTITIA_ADMIN_PORT": str(admin),
            "JUSTITIA_PEER_HOST": "127.0.0.1",
            "JUSTITIA_PEER_PORT": str(peer_port),
            "JUSTITIA_LOG_LEVEL": "warning",
        }
        if self._passes_on:
            write_peer_credentials(folder, "pool")
            environment |= {"JUSTITIA_PEER_ADDRESS": "127.0.0.1", "JUSTITIA_PEER_FOLDER": str(folder)}
        if self._picked:
            environment |= {
                "JUSTITIA_PUBLIC_ADDRESS": "127.0.0.1",
                "JUSTITIA_PICKER_SOCKET": str(folder / "picker.sock"),
                "JUSTITIA_PICKER_HOST": "127.0.0.1",
                "JUSTITIA_PICKER_PORT": str(picker_port),
            }
        options = ["--port", str(engine_port), "--socket", str(folder / "engine.sock"), *self._options]
        engine = _start(folder, "justitia_benchmarks.paced_engine", options, os.environ)
        pod = Pod(folder, port, admin, engine, environment, self._picked)
        self._stack.callback(pod.kill)
        self.pods.append(pod)
        return pod

    async def serves(self, client: aiohttp.ClientSession, *, shares: bool) -> None:
        """Wait until all pods serve by the policy and, where the pool shares, hear of each other."""
        deadline = time.monotonic() + START_WITHIN
        while not all([await _serves(pod, client, len(self.pods) - 1 if shares else 0) for pod in self.pods]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the pool does not serve within {START_WITHIN:g} s: see the logs in {self._folder}")
            await asyncio.sleep(POLL)

    async def service(self, client: aiohttp.ClientSession) -> dict[TenantId, Seconds]:
        """What all engines have served each tenant. Raises AssertionError if a policy failed, aiohttp.ClientError."""
        total: dict[TenantId, Seconds] = {}
        for pod in self.pods:
            status = await pod.status(client)
            assert status.plug_in is None or not status.plug_in.failures, status.plug_in
            for tenant in status.tenants:
                name = TenantId(tenant.name)
                total[name] = total.get(name, 0.0) + tenant.service
        return total


async def ask(  # noqa: PLR0917
    client: aiohttp.ClientSession,
    at: Reached,
    tenant: str,
    prompt: int,
    output: int,
    on_first: Callable[[], None] = lambda: None,
) -> None:
    """Have one request served; `on_first` is called with the first part of its answer. Raises aiohttp.ClientError."""
    body = {"model": MODEL, "prompt": [1] * prompt, "max_tokens": output, "stream": True, "ignore_eos": True}
    headers = {"authorization": f"Bearer {key_of(tenant)}", "content-type": "application/json"}
    async with client.post(at.url, data=json.dumps(body), headers=headers) as answer:
        answer.raise_for_status()
        await answer.content.readany()
        on_first()
        await answer.read()


def _start(
    folder: Path, module: str, options: Sequence[str], environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", module, *options], env=environment, stdout=log, stderr=log)


async def _serves(pod: Pod, client: aiohttp.ClientSession, others: int) -> bool:
    try:
        status = await pod.status(client)
    except (aiohttp.ClientError, OSError):
        return False
    in_effect = any(c.type == ConditionType.POLICY_IN_EFFECT and c.status == "True" for c in status.conditions)
    hears = not others or (status.sharing is not None and status.sharing.others >= others)
    return status.engine_ready and in_effect and hears
