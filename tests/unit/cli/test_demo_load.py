"""The demo's load on engines of any speed: contention for as long as planned, and nobody refused.

The engine is simulated: one server that takes what waits in turn from both flooders by weight, and from the light
tenant first. It is up to a third faster or slower than the demo measured.
"""

import heapq
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pytest

from justitia_cli.demo.command import REQUIRED_PART
from justitia_cli.demo.findings import FLOODERS, SHARE_TOLERANCE, backlog
from justitia_cli.demo.load import (
    FLOOD_SECONDS,
    LIGHT_ALONE,
    SUPPORT,
    LoadPlan,
    contended_runs,
    count_requests,
    light_run_alone,
    plan_load,
)
from justitia_scheduling.policies.registry import build_cost_model, build_policy
from justitia_simulator.engine import Engine
from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.timing import LinearTiming
from justitia_simulator.traces import load_trace
from justitia_simulator.workload import WorkloadRun

TRACE = load_trace(Path("examples/traces/azure2023-conversation.csv"))
WRITTEN_ON = 1_900.0
"""Weighted tokens a second of the machine for which the demo was written."""

QUEUE, SEED = 1000, 1
WEIGHT = {"research": 1.0, "batch": 2.0, "support": 1e9}


@dataclass(frozen=True)
class Served:
    """`both` is the longest time in which both flooders had requests waiting, from some moment on without a break."""

    most_waiting: int
    both: float


def serve(runs: list[WorkloadRun], speed: float) -> Served:
    """Serve all, in weighted tokens a second."""
    coming = [(run.arrival, number, 0) for number, run in enumerate(runs)]
    heapq.heapify(coming)
    waiting: dict[str, deque[tuple[int, int, float]]] = {tenant: deque() for tenant in WEIGHT}
    left: dict[int, int] = {}
    service = dict.fromkeys(WEIGHT, 0.0)
    time = longest = most = 0.0
    since: float | None = None
    while coming or any(waiting.values()):
        while coming and (coming[0][0] <= time or not any(waiting.values())):
            at, number, stage = heapq.heappop(coming)
            time = max(time, at)
            requests = runs[number].stages[stage].requests
            left[number] = len(requests)
            for request in requests:
                work = request.prompt_tokens + 2.0 * request.output_tokens
                waiting[runs[number].tenant].append((number, stage, work))
        most = max(most, sum(map(len, waiting.values())))
        since = (time if since is None else since) if all(waiting[tenant] for tenant in FLOODERS) else None
        longest = max(longest, time - since if since is not None else 0.0)
        tenant = min((t for t in WEIGHT if waiting[t]), key=lambda t: service[t] / WEIGHT[t])
        number, stage, work = waiting[tenant].popleft()
        service[tenant] += work
        time += work / speed
        left[number] -= 1
        if not left[number] and stage + 1 < len(runs[number].stages):
            heapq.heappush(coming, (time + runs[number].stages[stage + 1].delay, number, stage + 1))
    return Served(int(most), longest)


@pytest.mark.parametrize("misjudged", [0.7, 1.0, 1.3])
@pytest.mark.parametrize("times", [0.3, 1.0, 3.4, 4.0, 20.0])
def test_the_queue_takes_all_that_waits_and_both_flooders_wait(times: float, misjudged: float) -> None:
    speed = WRITTEN_ON * times
    plan = plan_load(TRACE, speed, 1.0, QUEUE, SEED)
    runs = contended_runs(TRACE, plan, SEED)
    served = serve(runs, speed * misjudged)
    assert served.most_waiting <= count_requests(runs) <= QUEUE
    assert served.both >= REQUIRED_PART * plan.seconds / max(1.0, misjudged)


@pytest.mark.parametrize("times", [1.0, 4.0])
def test_the_flood_is_long_enough_to_show_shares_under_the_default_policy(times: float) -> None:
    timing = LinearTiming(0.010 / times, 0.00035 / times, 0.0003 / times, 1e-7 / times)
    engine = EngineProfile(
        "cpu", timing, 8192, block_size=32, admission=AdmissionRule.OPTIMISTIC, token_budget=2048, max_requests=256
    )
    speed, off = 2_300.0 * times, []
    for seed in range(1, 7):
        policy = build_policy("tiered-justitia", build_cost_model("engine-time", timing.charge))
        simulated = Engine(policy, engine, label="tiered-justitia", sample_every=0.5)
        runs = contended_runs(TRACE, plan_load(TRACE, speed, 1.0, QUEUE, seed), seed)
        served = simulated.serve(runs, {"research": 1.0, "batch": 2.0, "support": 4.0})
        off.append(abs(backlog(served.service).ratio / 2 - 1))
    assert fmean(off) < SHARE_TOLERANCE / 2
    assert max(off) < SHARE_TOLERANCE


@pytest.mark.parametrize("queue", [20, 100, 10_000])
def test_a_pool_with_another_queue_gets_what_it_takes(queue: int) -> None:
    plan = plan_load(TRACE, 20 * WRITTEN_ON, 1.0, queue, SEED)
    assert count_requests(contended_runs(TRACE, plan, SEED)) <= queue


def test_the_machine_it_was_written_on_is_flooded_for_the_whole_time() -> None:
    assert plan_load(TRACE, WRITTEN_ON, 1.0, QUEUE, SEED) == LoadPlan(WRITTEN_ON * FLOOD_SECONDS, FLOOD_SECONDS)


@pytest.mark.parametrize("speed", [WRITTEN_ON, WRITTEN_ON / 20])
def test_a_question_alone_never_waits_for_another(speed: float) -> None:
    runs = contended_runs(TRACE, LoadPlan(WRITTEN_ON * FLOOD_SECONDS, FLOOD_SECONDS), SEED)
    alone = light_run_alone(runs)
    assert [len(stage.requests) for stage in alone.stages] == [1] * LIGHT_ALONE
    asked = [request for run in runs if run.tenant == SUPPORT.tenant for request in run.requests]
    assert list(alone.requests) == asked[:LIGHT_ALONE]
    assert serve([alone], speed).most_waiting <= 1


def test_a_load_by_speed_alone_overflows_the_queue_of_a_fast_machine() -> None:
    speed = 5 * WRITTEN_ON
    runs = contended_runs(TRACE, LoadPlan(speed * FLOOD_SECONDS, FLOOD_SECONDS), SEED)
    assert serve(runs, speed).most_waiting > QUEUE
