"""One repetition: a cluster of its own, everything applied at once, weights changed, silence, an operator's restart."""

import asyncio
import contextlib
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp

from cluster.control_plane import ControlPlane
from justitia_benchmarks.operator.cluster import simulated_cluster
from justitia_benchmarks.operator.population import SYSTEM, Size, namespaces, resources, tenant_name
from justitia_benchmarks.operator.process import Operator
from justitia_benchmarks.operator.sidecars import SimulatedSidecars
from justitia_operator.runtime.kube import Kube, connect
from justitia_operator.world.objects import Json, Kind, Ref
from justitia_vocabulary.units import Seconds

AT_ONCE = 32
"""Objects on their way to the API server."""
CHANGES = 10
PATIENCE: Seconds = 300.0
LOOK: Seconds = 1.0
"""Each look lists everything, at the expense of what is measured."""
LOOK_AT_WEIGHT: Seconds = 0.01
SETTLE: Seconds = 30.0

Figures = dict[str, float]
Progress = Callable[[str], None]


def measure(size: Size, seed: int, quiet: Seconds, progress: Progress) -> Figures:
    """Seconds, bytes and counts by name. Raises RuntimeError or TimeoutError where it does not come so far."""
    with simulated_cluster(progress) as plane, tempfile.TemporaryDirectory() as folder:
        os.environ["KUBECONFIG"] = str(plane.kubeconfig)
        plane.kubectl("create", "namespace", SYSTEM)
        return asyncio.run(Repetition(plane, Path(folder), size, progress).run(seed, quiet))


@dataclass(frozen=True)
class Repetition:
    plane: ControlPlane
    folder: Path
    size: Size
    progress: Progress

    async def run(self, seed: int, quiet: Seconds) -> Figures:
        figures: Figures = {}
        async with (
            connect() as kube,
            aiohttp.ClientSession() as session,
            _following(kube, session, self.folder) as sidecars,
        ):
            with self._operator(session) as operator:
                await _until(lambda: _is_idle(operator))
                await _create(kube, namespaces(self.size))
                self.progress("applying everything at once")
                figures |= await _converge(kube, operator, self.size)
                self.progress(f"converged in {figures['converged']:.1f} s; changing weights")
                figures |= await _change_weights(kube, sidecars, self.size, seed)
                self.progress(f"in effect after {figures['slowestChange']:.2f} s at most; silence for {quiet:.0f} s")
                await asyncio.sleep(SETTLE)
                figures |= await _stay_quiet(operator, quiet)
                figures["peakMemory"] = operator.peak_memory()
                operator.stop()
            self.progress("starting another operator")
            with self._operator(session) as successor:
                figures |= await _take_over(successor)
        return figures

    def _operator(self, session: aiohttp.ClientSession) -> Operator:
        return Operator(self.plane.kubeconfig, session, self.folder / "operator.log")


@asynccontextmanager
async def _following(kube: Kube, session: aiohttp.ClientSession, folder: Path) -> AsyncIterator[SimulatedSidecars]:
    sidecars = SimulatedSidecars(kube, session, folder)
    task = asyncio.create_task(sidecars.follow())
    try:
        yield sidecars
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _converge(kube: Kube, operator: Operator, size: Size) -> Figures:
    began, cpu = time.monotonic(), operator.cpu()
    await _create(kube, resources(size))
    applied = time.monotonic() - began
    await _until(lambda: _has_converged(kube, size))
    converged = time.monotonic() - began
    await _until(lambda: _is_idle(operator))
    metrics = await operator.metrics()
    return {
        "applied": applied,
        "converged": converged,
        "convergeCpu": operator.cpu() - cpu,
        "convergeWrites": metrics["justitia_operator_api_writes_total"],
        "convergeReconciles": metrics["justitia_operator_reconcile_seconds_count"],
        "convergeFaults": metrics["justitia_operator_faults_total"],
    }


async def _has_converged(kube: Kube, size: Size) -> bool:
    """Every application is served, and every pod has confirmed that its pool's configuration is in effect."""
    for kind, count, condition in (
        (Kind.LLM_APPLICATION, size.applications, "Ready"),
        (Kind.SERVING_POOL, size.pools, "Programmed"),
    ):
        listed, _ = await kube.list(kind)
        if len(listed) < count or not all(_holds(obj, condition) for obj in listed):
            return False
    return True


def _holds(obj: Json, type_: str) -> bool:
    generation = obj["metadata"]["generation"]
    return any(
        c["type"] == type_ and c["status"] == "True" and c["observedGeneration"] == generation
        for c in (obj.get("status") or {}).get("conditions") or ()
    )


async def _change_weights(kube: Kube, sidecars: SimulatedSidecars, size: Size, seed: int) -> Figures:
    """Change the weights of some tenants, one after the other. Measures until they are in effect in all pods that serve
    the tenant.
    """
    took = []
    for number, tenant in enumerate(random.Random(seed).sample(range(size.tenants), CHANGES)):
        name, weight = tenant_name(tenant), 2.0 + number
        known = await kube.get(Ref(Kind.TENANT, "", name))
        assert known is not None
        known["spec"]["weight"] = str(int(weight))
        began = time.monotonic()
        await kube.replace(known)
        await _until(partial(_in_effect, sidecars, name, weight), LOOK_AT_WEIGHT)
        took.append(time.monotonic() - began)
    return {"meanChange": sum(took) / len(took), "slowestChange": max(took)}


async def _in_effect(sidecars: SimulatedSidecars, tenant: str, weight: float) -> bool:
    return sidecars.weights(tenant) == {weight}


async def _stay_quiet(operator: Operator, seconds: Seconds) -> Figures:
    began, cpu, before = time.monotonic(), operator.cpu(), await operator.metrics()
    await asyncio.sleep(seconds)
    after = await operator.metrics()
    writes = "justitia_operator_api_writes_total"
    return {
        "quietCores": (operator.cpu() - cpu) / (time.monotonic() - began),
        "quietWrites": after[writes] - before[writes],
        "quietMemory": operator.memory(),
    }


async def _take_over(operator: Operator) -> Figures:
    began = time.monotonic()
    await _until(lambda: _is_idle(operator))
    metrics = await operator.metrics()
    return {
        "restarted": time.monotonic() - began,
        "restartCpu": operator.cpu(),
        "restartWrites": metrics["justitia_operator_api_writes_total"],
        "restartPeakMemory": operator.peak_memory(),
    }


async def _is_idle(operator: Operator) -> bool:
    """It leads, has begun, and nothing waits; looked at twice, since what is being worked on may bring more."""
    for _ in range(2):
        metrics = await operator.metrics()
        begun = metrics.get("justitia_operator_leading") == 1 and metrics["justitia_operator_reconcile_seconds_count"]
        if not begun or metrics["justitia_operator_queued"]:
            return False
        await asyncio.sleep(LOOK)
    return True


async def _create(kube: Kube, objects: Iterable[Json]) -> None:
    rest = iter(objects)

    async def create_some() -> None:
        for obj in rest:
            if await kube.create(obj) is None:
                raise RuntimeError(f"there is a {obj['kind']} {obj['metadata']['name']} already")

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(create_some())


async def _until(check: Callable[[], Awaitable[bool]], look: Seconds = LOOK) -> None:
    """Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE):
        while not await check():  # noqa: ASYNC110 - nobody here is told of it
            await asyncio.sleep(look)
