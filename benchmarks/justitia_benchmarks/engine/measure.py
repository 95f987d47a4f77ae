"""One workload served one way, and what came of it."""

import asyncio
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from justitia_benchmarks.engine.servers import KEYS, MODEL, PoolPair, RunningPool, Teller, documents, telling
from justitia_benchmarks.engine.workload import WEIGHTS, applications
from justitia_cli.local.pool import LocalPool
from justitia_cli.replay import Target, replay
from justitia_simulator.prediction import Told, find_prediction
from justitia_simulator.records import FINISHED, PolicyResults
from justitia_simulator.summary import summarise
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import RunId, Seconds


@dataclass(frozen=True)
class Way:
    """A way to serve a workload.

    `where`: `stock` is vLLM's own scheduler; `engine` is ours, told what `prediction` says by the benchmark;
    `sidecar` the sidecar in front of stock vLLM; `product` the sidecar in front of our scheduler. The last two know
    only what they learn. `each_run_a_client`: the policy takes each run for a tenant of its own.
    """

    name: str
    where: str
    policy: str = "fcfs"
    cost_model: str = "engine-time"
    prediction: str = "mean"
    each_run_a_client: bool = False


STOCK = Way("stock vLLM", "stock")
FCFS = Way("FCFS", "engine")
RUN_VTC = Way("VTC, a client for each run", "engine", "vtc", "weighted-tokens", each_run_a_client=True)
TRUE = Way("tiered Justitia, true costs", "engine", "tiered-justitia", prediction="true")
NOISY = Way("tiered Justitia, off by up to 3", "engine", "tiered-justitia", prediction="noisy:3")
MEAN = Way("tiered Justitia, running means", "engine", "tiered-justitia")
NONE = Way("tiered Justitia, one constant for all", "engine", "tiered-justitia", prediction="none")
PRODUCT = Way("tiered Justitia, running means, with its sidecar", "product", "TieredJustitia")
SIDECAR = Way("sidecar only: tiered Justitia, running means", "sidecar", "TieredJustitia")
WAYS = (
    STOCK,
    FCFS,
    RUN_VTC,
    Way("VTC, tenants", "engine", "vtc"),
    Way("Justitia (paper), true costs", "engine", "justitia", "kv-token-time", "true"),
    TRUE,
    NOISY,
    MEAN,
    NONE,
    Way("SRJF, true costs", "engine", "srjf", "kv-token-time", "true"),
    Way("UniBoost", "engine", "uniboost"),
    PRODUCT,
    SIDECAR,
    Way("sidecar only: FCFS", "sidecar", "FCFS"),
)


class Bench:
    """Serves workloads on running pools. Prompts differ from cell to cell, so that no cache of an earlier one helps."""

    def __init__(self, pools: PoolPair) -> None:
        self._pools = pools

    def serve(self, way: Way, runs: Sequence[WorkloadRun], cell: int, seed: int) -> dict[str, object]:
        """Figures of the runs under `way`; `queued`: the mean seconds that a request waited in the engine. `seed` is
        that of predictions. Raises RuntimeError if a request failed.
        """
        more: Mapping[str, object] = {}
        pools = self._pools
        running = pools.stock if way.where in {"stock", "sidecar"} else pools.plugged
        pools.work_on(running)
        before = [counted(running, name) for name in QUEUED]
        match way.where:
            case "stock":
                results = asyncio.run(replay(runs, direct(pools.stock, cell)))
            case "engine":
                pools.plugged.pool.stop_sidecar()
                compete = runs[-1].arrival
                results, more = asyncio.run(serve_told(pools.plugged, way, runs, cell, seed, compete=compete))
            case "product":
                results = self._through(pools.plugged.pool, "Engine", way, runs, cell)
            case _:
                results = self._through(pools.stock.pool, "Sidecar", way, runs, cell)
        seconds, requests = (counted(running, name) - was for name, was in zip(QUEUED, before, strict=True))
        return {**figures(results, runs), **more, "queued": seconds / requests}

    def steps(self) -> float:
        """Steps of the stock engine since its start."""
        return counted(self._pools.stock, _STEPS)

    def _through(
        self, pool: LocalPool, enforcement: str, way: Way, runs: Sequence[WorkloadRun], cell: int
    ) -> PolicyResults:
        """A sidecar that remembers nothing."""
        pool.stop_sidecar()
        pool.apply(documents(enforcement, way.policy, applications(runs)))
        pool.start_sidecar()
        target = Target(f"{pool.base_url}/v1", model=MODEL, api_keys=KEYS, seed=cell)
        return asyncio.run(replay(runs, target))


def counted(running: RunningPool, metric: str) -> float:
    """What the engine has counted under this name since its start."""
    url = running.engine.removesuffix("/v1") + "/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(metric))


def direct(running: RunningPool, cell: int) -> Target:
    """The engine, without a sidecar in front of it."""
    return Target(running.engine, model=MODEL, api_keys=dict.fromkeys(KEYS, "unused"), seed=cell)


async def serve_told(
    running: RunningPool, way: Way, runs: Sequence[WorkloadRun], cell: int, seed: int, *, compete: Seconds
) -> tuple[PolicyResults, dict[str, object]]:
    """Replay in that way to an engine whose sidecar does not run. Returns also what tenants were charged in the first
    `compete` seconds, and how many preemptions there were.
    """
    told = find_prediction(way.prediction, seed).tell(runs)
    async with telling(running.socket) as teller:
        await teller.configure(way.policy, way.cost_model, {} if way.each_run_a_client else WEIGHTS)

        def tenant_of(run: WorkloadRun) -> str:
            return run.id if way.each_run_a_client else run.tenant

        sampler = asyncio.create_task(_service_at(teller, compete))
        results = await replay_told(teller, runs, direct(running, cell), told, tenant_of)
        service = await sampler
    owner: Mapping[str, str] = {t: t for t in WEIGHTS}
    if way.each_run_a_client:
        owner = {run.id: run.tenant for run in runs}
    by_tenant = dict.fromkeys(WEIGHTS, 0.0)
    for client, charged in service.items():
        if client in owner:
            by_tenant[owner[client]] += charged
    return results, {"service": by_tenant, "preemptions": teller.preemptions}


async def replay_told(
    teller: Teller,
    runs: Sequence[WorkloadRun],
    target: Target,
    told: Mapping[RunId, Told],
    tenant_of: Callable[[WorkloadRun], str] = lambda run: run.tenant,
) -> PolicyResults:
    """Replay to an engine that is told of each run what `told` says. Raises RuntimeError if its scheduler failed."""

    def announce(run: WorkloadRun, number: int) -> Mapping[str, str]:
        return teller.announce(run, told[run.id], tenant_of(run))

    before = teller.channel.state
    results = await replay(runs, replace(target, announce=announce))
    state = teller.channel.state
    grown = {name: getattr(state, name) - getattr(before, name) for name in ("failures", "unticketed", "late_tickets")}
    if grown["failures"] or grown["unticketed"] > grown["late_tickets"]:
        raise RuntimeError(f"the scheduler failed, or tickets did not come: {state}")
    return results


_STEPS = "vllm:iteration_tokens_total_count"
QUEUED = ("vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count")


async def _service_at(teller: Teller, moment: Seconds) -> Mapping[str, float]:
    """What clients were charged between now and `moment` seconds from now."""
    before = teller.channel.state.service
    await asyncio.sleep(moment)
    return {c: total - before.get(c, 0.0) for c, total in teller.channel.state.service.items()}


def tokens_per_second(served: Mapping[str, Any]) -> float:
    """Tokens a second until the last run is over."""
    return float(served["throughput"]["tokens_per_second"])


def refuse_failed(results: PolicyResults) -> None:
    """Raises RuntimeError if a request failed."""
    failed = [r for r in results.requests if r.status != FINISHED]
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {len(results.requests)} requests failed, the first with {failed[0].status}"
        )


def figures(results: PolicyResults, runs: Sequence[WorkloadRun]) -> dict[str, object]:
    """By run in the workload's order: JCT. By request: TTFT and TTLT. Seconds."""
    refuse_failed(results)
    summary: dict[str, Any] = summarise(results)
    jct = {run.run: run.jct for run in results.runs}
    return {
        "jct": [round(jct[run.id] or 0.0, 5) for run in runs],
        "cost": [run.cost for run in runs],
        "tenant": [run.tenant for run in runs],
        "ttft": [round(r.first_token - r.ready, 5) for r in results.requests if r.first_token is not None],
        "ttlt": [round(r.finished - r.ready, 5) for r in results.requests if r.finished is not None],
        "throughput": summary["throughput"],
        "seconds": max(r.finished or 0.0 for r in results.requests),
    }
