"""Several engines and how requests come to them (docs/design/fleet.md)."""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from justitia_scheduling.core.cost import EngineTime, KVTokenTimeCost, StepTime
from justitia_scheduling.core.model import Run
from justitia_scheduling.policies.justitia import Justitia
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.engine import Engine
from justitia_simulator.fleet import AtRandom, Fleet, OneQueue
from justitia_simulator.fleet_counters import BoundOnArrival, entries
from justitia_simulator.fleet_order import Absence, OneOrder
from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.records import FINISHED, PolicyResults
from justitia_simulator.timing import LinearTiming
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId

PROFILE = EngineProfile("mixed", LinearTiming(0.1, 0.01, 0.02, 0.001), 120, 4, AdmissionRule.OPTIMISTIC, 16, 6)
SPACE = PROFILE.kv_tokens
ENGINES = 3


def policy(engines: int = 1) -> TieredJustitia:
    return TieredJustitia(EngineTime(PROFILE.charge, engines))


def runs(count: int, apart: Seconds = 0.0) -> list[WorkloadRun]:
    """So many of two tenants, of two stages, one every `apart` seconds."""
    stages = (
        WorkloadStage((WorkloadRequest(20, 30), WorkloadRequest(9, 5))),
        WorkloadStage((WorkloadRequest(40, 20),)),
    )
    return [
        WorkloadRun(RunId(f"r{n}"), TenantId("tu"[n % 2]), ApplicationId("app"), n * apart, stages)
        for n in range(count)
    ]


def shared(*, runs: bool) -> BoundOnArrival:
    policies = [policy() for _ in range(ENGINES)]
    return BoundOnArrival(policies, PROFILE, SPACE, entries(ENGINES, 1), 0.2, runs=runs)


WAYS: dict[str, Callable[[], Fleet]] = {
    "one queue": lambda: OneQueue(policy(ENGINES), PROFILE, SPACE),
    "at random": lambda: AtRandom([policy() for _ in range(ENGINES)], PROFILE, SPACE, 1),
    "counters shared": lambda: shared(runs=False),
    "runs shared": lambda: shared(runs=True),
    "one order": lambda: OneOrder(partial(policy, ENGINES), PROFILE, SPACE, 0.001, late=True),
    "one order that is away": lambda: OneOrder(
        partial(policy, ENGINES), PROFILE, SPACE, 0.001, late=True, absence=Absence(2.5, 2.0)
    ),
}


def served(fleet: Fleet, workload: list[WorkloadRun]) -> PolicyResults:
    return Engine(fleet, PROFILE, label="fleet").serve(workload, {"t": 1.0, "u": 2.0})


@pytest.mark.parametrize("apart", [0.0, 0.3, 20.0], ids=["at once", "busy", "idle between"])
@pytest.mark.parametrize("way", WAYS)
def test_everything_is_served_once_and_charged_once(way: str, apart: Seconds) -> None:
    workload = runs(24, apart)
    fleet = WAYS[way]()
    busy = [0.0] * ENGINES
    for number, replica in enumerate(fleet.replicas):
        listen(replica.complete, busy, number, fleet)
    results = served(fleet, workload)
    assert [r.status for r in results.requests] == [FINISHED] * 72
    assert len({(r.run, r.stage, r.prompt_tokens) for r in results.requests}) == 72
    charged = sum(fleet.service(TenantId(tenant)) for tenant in "tu")
    assert charged <= sum(busy) * (1 + 1e-9)
    assert charged >= sum(busy) * 0.9


def listen(complete: Callable[[], object], busy: list[float], number: int, fleet: Fleet) -> None:
    """Note for how long the engine works."""
    replica = fleet.replicas[number]

    def completed() -> object:
        step = replica._step
        assert step is not None
        busy[number] += step.duration
        return complete()

    replica.complete = completed  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("way", WAYS)
def test_all_engines_work(way: str) -> None:
    fleet = WAYS[way]()
    results = served(fleet, runs(60))
    end = max(r.finished or 0.0 for r in results.requests)
    assert fleet.idle < 0.1 * ENGINES * end


def test_one_queue_refuses_engines_that_keep_the_kv_of_what_waits() -> None:
    with pytest.raises(ValueError, match="keeps KV of requests that wait"):
        OneQueue(policy(2), msgspec.structs.replace(PROFILE, prefix_cache=True), SPACE)


def test_an_order_that_is_away_hands_nothing_over_and_the_next_one_goes_on() -> None:
    results = served(WAYS["one order that is away"](), runs(60))
    admitted = sorted(r.admitted for r in results.requests if r.admitted is not None)
    assert not [moment for moment in admitted if 2.5 < moment < 4.5]
    assert [moment for moment in admitted if moment >= 4.5]


def test_service_elsewhere_moves_counters_and_is_not_service() -> None:
    tiered, tenant = policy(), TenantId("t")
    tiered.set_weight(tenant, 4.0, 0.0)
    tiered.served_elsewhere(tenant, 6.0)
    assert tiered.counters[tenant] == 1.5
    assert not tiered.service


def test_what_is_delivered_elsewhere_moves_the_clock_of_a_policy_that_knows_no_engines() -> None:
    justitia, run = Justitia(KVTokenTimeCost()), Run(RunId("r"), TenantId("t"), ApplicationId("a"), 100.0)
    justitia.run_arrived(run, 0.0)
    justitia.delivered_elsewhere({run.id: 40.0, RunId("over"): 7.0}, 1.0)
    assert justitia.runs[run.id].attained == 40.0
    assert justitia.virtual_time.now == 40.0


def test_the_cost_model_of_several_engines_counts_what_all_hold() -> None:
    one, three = EngineTime(StepTime(0.1, 0.01, 0.001)), EngineTime(StepTime(0.1, 0.01, 0.001), 3)
    assert three.in_engine(3 * 120, 7) == pytest.approx(3 * one.in_engine(120, 7))
    assert three.prompt_work(3 * 120) == pytest.approx(one.prompt_work(120))
    assert three.keeping(50.0, 3 * 120) == pytest.approx(one.keeping(50.0, 120))
