"""Tokens a second of an engine that always has more to do than it can: what a scheduler costs, whatever its order.

The replays cannot tell: their last run is the longest, most of which the engine works for it alone, and an order that
finishes the others first has it end later.
"""

import random
from collections.abc import Iterator, Sequence

from justitia_benchmarks.engine.measure import FCFS, STOCK, TRUE, Bench, tokens_per_second
from justitia_benchmarks.engine.workload import NAMESPACE, WEIGHTS
from justitia_scheduling.model import ApplicationId, RunId, TenantId
from justitia_simulator.workload import Stage, WorkloadRequest, WorkloadRun

REQUESTS = 400
REQUEST = WorkloadRequest(60, 60)
CONTENDERS = (STOCK, FCFS, TRUE)


def measure_saturated(bench: Bench, seeds: int) -> Iterator[dict[str, float]]:
    """Of each way, once for each seed, in an order that the seed draws. A first round, which warms up, is not told."""
    for seed in range(seeds + 1):
        ways = random.Random(seed).sample(CONTENDERS, len(CONTENDERS))
        found = {way.name: tokens_per_second(bench.serve(way, requests(), cell=seed, seed=seed)) for way in ways}
        if seed:
            yield found


def requests() -> Sequence[WorkloadRun]:
    """Runs of one request, all alike, all there from the beginning."""
    stages = (Stage((REQUEST,), 0.0),)
    tenants = [TenantId(name) for name in WEIGHTS]
    return [
        WorkloadRun(RunId(f"r{i}"), tenants[i % len(tenants)], ApplicationId(f"{NAMESPACE}/alike"), 0.0, stages)
        for i in range(REQUESTS)
    ]
