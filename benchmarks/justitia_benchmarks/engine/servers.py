"""The two engines that are compared, each a pool as local mode starts one: stock vLLM behind a sidecar, and one with
our scheduler inside. Both are up at the same time and one is frozen while the other works: an idle vLLM takes a fifth
of a core.

To be told what it could not know (true costs, another client for each run) the second one's scheduler is spoken to
directly: the sidecar is stopped, and :class:`Teller` listens in its place.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from justitia_benchmarks.engine.overhead import ROOT, WINGS
from justitia_benchmarks.engine.workload import BLOCK, BLOCKS, LONGEST, NAMESPACE, WEIGHTS
from justitia_channel.messages import Admitted, Arrived, Closed, Configure, RunEnded, Ticket
from justitia_cli.console import errors
from justitia_cli.local.launch import LocalModel, Ports
from justitia_cli.local.pool import LocalPool, Progress
from justitia_cli.local.ports import free_ports
from justitia_cli.runtime import EngineRuntime, ensure_engine
from justitia_cli.tiny_model import make_tiny_model
from justitia_operator.world.objects import Json
from justitia_sidecar.engine.channel import EngineChannel, listen
from justitia_simulator.prediction import Told
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import RunId, TenantId, Tokens

MODEL = "tiny"
SOCKET = "engine.sock"
SEATS = 64
PATIENCE = 30.0
TOKEN_BUDGET: Tokens = 2048


@dataclass(frozen=True)
class Space:
    """An engine's KV space, in blocks and tokens of a block, and the longest request that it takes."""

    blocks: int
    block: Tokens
    longest: Tokens

    @property
    def tokens(self) -> Tokens:
        """vLLM keeps one block for itself."""
        return (self.blocks - 1) * self.block


def engine_arguments(space: Space, seats: int = SEATS) -> tuple[str, ...]:
    """vLLM's, for an engine of that KV space."""
    return (
        f"--max-model-len={space.longest}",
        f"--block-size={space.block}",
        f"--num-gpu-blocks-override={space.blocks}",
        f"--max-num-seqs={seats}",
        f"--max-num-batched-tokens={TOKEN_BUDGET}",
    )


SPACE = Space(BLOCKS, BLOCK, LONGEST)
ARGUMENTS = (*engine_arguments(SPACE), "--stream-interval=16")
"""The first token of a stream is told at once, the others sixteen at a time: the machine has two cores for all."""
WITH_BASELINES = "--scheduler-cls=justitia_benchmarks.engine.scheduler.JustitiaScheduler"
WITH_BENCHMARKS = (*WINGS, ROOT / "benchmarks")
"""Where an engine finds that scheduler."""

NO_KNOBS: Mapping[str, float] = MappingProxyType({})

KEYS = {tenant: f"example-only-{tenant}-0123456789abcdef" for tenant in WEIGHTS}


def on_one_core(runtime: EngineRuntime) -> EngineRuntime:
    """The engine computes on one core and leaves the others to servers and clients; threads of it would spin."""
    one_core = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "OMP_NUM_THREADS": "1"}
    return replace(runtime, environment={**runtime.environment, **one_core})


@dataclass(frozen=True)
class RunningPool:
    """A pool that serves, the base URL of its engine, and where its scheduler connects if it has one of ours."""

    pool: LocalPool
    engine: str
    socket: Path


@dataclass(frozen=True)
class PoolPair:
    """`stock`: vLLM as it is. `plugged`: with our scheduler inside."""

    stock: RunningPool
    plugged: RunningPool

    def work_on(self, running: RunningPool) -> None:
        """Let this one's engine go on, and freeze the other's."""
        work_on(running, (self.stock, self.plugged))


def work_on(running: RunningPool, among: Iterable[RunningPool]) -> None:
    """Let this one's engine go on, and freeze those of the others."""
    for each in among:
        engine, *_ = each.pool.pids
        os.killpg(engine, signal.SIGCONT if each is running else signal.SIGSTOP)


class Prepared(NamedTuple):
    """The engine's program on one core, a folder that goes afterwards, and a tiny model in it."""

    runtime: EngineRuntime
    directory: Path
    model: Path


@contextmanager
def prepared() -> Iterator[Prepared]:
    runtime = on_one_core(ensure_engine(errors.print, "cpu"))
    with tempfile.TemporaryDirectory() as scratch:
        yield Prepared(runtime, Path(scratch), make_tiny_model(Path(scratch) / "model"))


@contextmanager
def engine_alone(
    parts: Prepared, name: str, arguments: Sequence[str], scheduler: str | None = WITH_BASELINES
) -> Iterator[RunningPool]:
    """An engine without its sidecar, with one of our schedulers, or vLLM's own if None."""
    with running_pool(
        documents("Engine" if scheduler else "Sidecar", "TieredJustitia", {}),
        parts.directory / name,
        parts.runtime,
        LocalModel(str(parts.model), True),
        errors.print,
        arguments=(*arguments, *([scheduler] if scheduler else [])),
        path=WITH_BENCHMARKS if scheduler else (),
    ) as running:
        running.pool.stop_sidecar()
        yield running


@contextmanager
def running_pools(
    directory: Path, runtime: EngineRuntime, model: LocalModel, applications: Mapping[str, str], progress: Progress
) -> Iterator[PoolPair]:
    """Both pools, ready. `applications` by name, each with its tenant."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                running_pool(
                    documents(enforcement, "TieredJustitia", applications),
                    directory / enforcement.lower(),
                    runtime,
                    model,
                    progress,
                    arguments=arguments,
                    path=path,
                )
            )
            for enforcement, arguments, path in (
                ("Sidecar", ARGUMENTS, ()),
                ("Engine", (*ARGUMENTS, WITH_BASELINES), WITH_BENCHMARKS),
            )
        ]
        yield PoolPair(*started)


@contextmanager
def running_pool(
    resources: Sequence[Json],
    directory: Path,
    runtime: EngineRuntime,
    model: LocalModel,
    progress: Progress,
    *,
    arguments: Sequence[str] = ARGUMENTS,
    path: Sequence[Path] = (),
    sidecar_environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[RunningPool]:
    """A pool, ready. `arguments` are the engine's, which looks for modules in `path` before the plug-in."""
    directory.mkdir(parents=True, exist_ok=True)
    ports = Ports(*free_ports(3))
    with LocalPool(
        resources,
        directory,
        runtime,
        model,
        ports,
        progress,
        engine_arguments=arguments,
        engine_path=path,
        sidecar_environment=sidecar_environment,
    ) as pool:
        progress(f"starting the engine in {directory.name}")
        pool.start(lambda pids: None)
        yield RunningPool(pool, f"http://127.0.0.1:{ports.engine}/v1", directory / "plugin" / SOCKET)


def documents(enforcement: str, policy: str, applications: Mapping[str, str], *, learning: bool = False) -> list[Json]:
    """What a user would apply: tenants with keys, a pool, applications. With `learning` samples of runs are kept."""
    tiers = [{"name": name, "weight": f"{weight:g}"} for name, weight in WEIGHTS.items()]
    queue = {"maximumRequests": 100_000, "timeoutSeconds": 3600}
    pool: Json = {
        "model": {"uri": "hf://bench/tiny", "name": MODEL},
        "scheduling": {"policy": policy, "enforcement": enforcement, "tiers": tiers, "queue": queue},
    }
    predicted: Json = {}
    if learning:
        pool["learning"] = {"store": {"claimName": "store"}}
        predicted["predictor"] = {}
    found: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        _resource("ServingPool", "pool", pool),
    ]
    for name in WEIGHTS:
        reference = {"secretRef": {"name": f"{name}-key"}}
        spec = {"tier": name, "namespaces": {"names": [NAMESPACE]}, "apiKeys": [reference]}
        secret = {"name": f"{name}-key", "namespace": "justitia-system"}
        found.append({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"token": KEYS[name]}})
        found.append(_resource("Tenant", name, spec, namespaced=False))
    for name, tenant in applications.items():
        application: Json = {"tenantRef": {"name": tenant}, "poolRef": {"name": "pool"}, **predicted}
        found.append(_resource("LLMApplication", name, application))
    return found


def _resource(kind: str, name: str, spec: Json, *, namespaced: bool = True) -> Json:
    metadata = {"name": name} | ({"namespace": NAMESPACE} if namespaced else {})
    return {"apiVersion": "justitia.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


class Teller:
    """In the sidecar's place: tells the engine of each request what a workload says of it, and when its run is over."""

    def __init__(self) -> None:
        self.channel = EngineChannel(self._heard)
        self.preemptions = 0
        self._generation = 0
        self._run_of: dict[str, RunId] = {}
        self._left: dict[RunId, int] = {}

    async def configure(
        self, policy: str, cost_model: str, weights: Mapping[str, float], knobs: Mapping[str, float] = NO_KNOBS
    ) -> None:
        """A policy that remembers nothing: another one is in effect in between."""
        for name, tuned in (("fcfs", NO_KNOBS), (policy, knobs)):
            self._generation += 1
            self.channel.configure(Configure(self._generation, name, cost_model, dict(weights), dict(tuned)))
            await until(lambda: self.channel.state.generation == self._generation)
        self.preemptions = 0

    def announce(self, run: WorkloadRun, told: Told, tenant: str) -> dict[str, str]:
        """Send the request's ticket; returns the headers that name it."""
        key = uuid.uuid4().hex
        name = RunId(f"{self._generation}/{run.id}")
        self._run_of[key] = name
        self._left.setdefault(name, len(run.requests))
        self.channel.send(
            Ticket(
                key,
                TenantId(tenant),
                run.application,
                name,
                run_cost=told.cost,
            )
        )
        return {"x-request-id": key}

    def _heard(self, message: Arrived | Admitted | Closed) -> None:
        if not isinstance(message, Closed):
            return
        run = self._run_of.pop(message.key, None)
        self.preemptions += message.preemptions
        if run is None:
            return
        self._left[run] -= 1
        if not self._left[run]:
            del self._left[run]
            self.channel.send(RunEnded(run))


@asynccontextmanager
async def telling(path: Path) -> AsyncIterator[Teller]:
    """A teller to which the engine's scheduler has connected."""
    teller = Teller()
    serving = asyncio.create_task(teller.channel.serve(listen(path)))
    try:
        await until(lambda: teller.channel.connected)
        yield teller
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


async def until(holds: Callable[[], bool]) -> None:
    """Poll: the channel has no events of its own. Raises TimeoutError after `PATIENCE` seconds."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
