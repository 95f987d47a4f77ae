"""Several engines that share by weight as one (docs/design/fleet.md).

- With one engine, a way to serve is the engine itself, to the last bit.
- What others have served is counted once, whatever becomes of messages; the control adds what it is told.
- Two tenants that wait all the time stay within a bound; the control never reads what others have served.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.core.pool_service import EngineName, PoolService
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.engine import Engine
from justitia_simulator.fleet import AtRandom, Fleet, OnArrival, OneQueue
from justitia_simulator.fleet_counters import BoundOnArrival, entries
from justitia_simulator.fleet_order import OneOrder
from justitia_simulator.inference import Inference
from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.profiles import EngineProfile, Front
from justitia_simulator.records import PolicyResults
from justitia_simulator.replica import Replica
from justitia_simulator.timing import LinearTiming
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId
from support.examples import examples

TICK = 2**-10
PROFILE = EngineProfile(
    "mixed", LinearTiming(100 * TICK, 10 * TICK, 20 * TICK, TICK), 120, 4, AdmissionRule.OPTIMISTIC, 16, 6
)
SPACE = PROFILE.kv_tokens
IN_FRONT = msgspec.structs.replace(PROFILE, front=Front(0.0))

REQUEST = st.builds(WorkloadRequest, st.integers(1, 60), st.integers(1, 60))
STAGE = st.builds(WorkloadStage, st.lists(REQUEST, min_size=1, max_size=3).map(tuple), st.sampled_from([0.0, 0.7]))
RUN = st.tuples(
    st.lists(STAGE, min_size=1, max_size=3), st.sampled_from("tuv"), st.integers(0, 20_000).map(lambda n: n * TICK)
)
WEIGHTS = {"t": 1.0, "u": 2.0, "v": 4.0}


def built(runs: Sequence[tuple[Sequence[WorkloadStage], str, Seconds]]) -> list[WorkloadRun]:
    return [
        WorkloadRun(RunId(f"r{number}"), TenantId(tenant), ApplicationId("app"), arrival, tuple(stages))
        for number, (stages, tenant, arrival) in enumerate(runs)
    ]


def policy(burst: Seconds | None = None) -> TieredJustitia:
    return TieredJustitia(EngineTime(PROFILE.charge), burst=burst)


ONE: Mapping[str, tuple[Callable[[], Fleet], EngineProfile]] = {
    "one queue": (lambda: OneQueue(policy(), PROFILE, SPACE), PROFILE),
    "at random": (lambda: AtRandom([policy()], PROFILE, SPACE, 1), PROFILE),
    "S": (lambda: BoundOnArrival([policy()], PROFILE, SPACE, entries(1, 1), 0.2, runs=True), PROFILE),
    "one order, by the window": (lambda: OneOrder(policy, PROFILE, SPACE, 0.0, late=False), IN_FRONT),
}


@pytest.mark.parametrize("way", ONE)
@given(runs=st.lists(RUN, min_size=1, max_size=10).map(built))
@examples(40)
def test_one_engine_serves_as_if_it_were_in_no_fleet(way: str, runs: list[WorkloadRun]) -> None:
    make, profile = ONE[way]
    fleet = Engine(make(), PROFILE, label="same").serve(runs, WEIGHTS)
    alone = Engine(policy(), profile, label="same").serve(runs, WEIGHTS)
    assert fleet.requests == alone.requests
    assert fleet.runs == alone.runs
    assert fleet.service == alone.service


class AddingPoolService(PoolService):
    """Takes each message for news."""

    def merge(self, engine: EngineName, totals: Mapping[TenantId, float]) -> dict[TenantId, float]:
        return dict(totals)


A, B = EngineName("a"), EngineName("b")
TOTALS = st.lists(st.floats(0, 10), min_size=1, max_size=6)
"""What an engine serves a tenant between two messages."""


def counted(pool: PoolService, messages: Sequence[tuple[EngineName, float]]) -> float:
    """The counter of a tenant of weight 2 once these totals have been heard of, times its weight."""
    reader, tenant = policy(), TenantId("t")
    reader.set_weight(tenant, 2.0, 0.0)
    for engine, total in messages:
        for of, more in pool.merge(engine, {tenant: total}).items():
            reader.served_elsewhere(of, more)
    assert not reader.service
    return 2 * reader.counters[tenant]


@given(served=st.fixed_dictionaries({A: TOTALS, B: TOTALS}), data=st.data())
@examples(150)
def test_what_others_served_is_counted_once_whatever_is_repeated_lost_or_late(
    served: Mapping[EngineName, list[float]], data: st.DataObject
) -> None:
    sent = [(engine, sum(parts[: k + 1])) for engine, parts in served.items() for k in range(len(parts))]
    heard = data.draw(st.lists(st.sampled_from(sent), max_size=20))
    newest: defaultdict[EngineName, float] = defaultdict(float)
    for engine, total in heard:
        newest[engine] = max(newest[engine], total)
    assert counted(PoolService(), heard) == pytest.approx(sum(newest.values()))
    last = [(engine, sum(parts)) for engine, parts in served.items()]
    assert counted(PoolService(), heard + last) == pytest.approx(sum(total for _, total in last))


def test_adding_what_is_told_counts_twice() -> None:
    assert counted(PoolService(), [(A, 3.0), (A, 3.0), (A, 5.0)]) == 5.0
    assert counted(AddingPoolService(), [(A, 3.0), (A, 3.0), (A, 5.0)]) == 11.0


class Placed(BoundOnArrival):
    """One tenant's requests all go to the first engine, the other's to all in turn."""

    def __init__(self, engines: int, staleness: Seconds, burst: Seconds) -> None:
        policies = [policy(burst) for _ in range(engines)]
        super().__init__(policies, PROFILE, SPACE, entries(engines, 1), staleness, runs=True)
        self._number = count()

    def choose(self, request: Inference) -> Replica:
        super().choose(request)
        return self.replicas[0 if request.run.tenant == "t" else next(self._number) % len(self.replicas)]


def flood(tenant: str, requests: int, output: int) -> list[WorkloadRun]:
    stages = (WorkloadStage((WorkloadRequest(10, output),)),)
    return [
        WorkloadRun(RunId(f"{tenant}{n}"), TenantId(tenant), ApplicationId(tenant), 0.0, stages)
        for n in range(requests)
    ]


def furthest_apart(results: PolicyResults, weights: Mapping[str, float]) -> float:
    """Service per weight, the most at a sample that finds both tenants waiting since the beginning."""
    by_time: defaultdict[Seconds, dict[str, tuple[float, int]]] = defaultdict(dict)
    for sample in results.service:
        by_time[sample.time][sample.tenant] = sample.service / weights[sample.tenant], sample.queued
    widest = 0.0
    for time in sorted(by_time):
        (f, waits_f), (g, waits_g) = by_time[time]["t"], by_time[time]["u"]
        if not (waits_f and waits_g):
            break
        widest = max(widest, abs(f - g))
    return widest


def bound(engines: int, staleness: Seconds, burst: Seconds, output: int) -> float:
    """B + (R U + (R - 1)(delta + the longest step)) / w, for the smallest weight, 1."""
    assert PROFILE.token_budget is not None
    step = PROFILE.timing.step(PROFILE.token_budget, PROFILE.max_requests or 0, SPACE)
    in_engine = output * step + SPACE * PROFILE.charge.per_token
    return burst + engines * in_engine + (engines - 1) * (staleness + step)


@given(
    engines=st.integers(2, 3),
    staleness=st.sampled_from([0.05, 0.5, 3.0]),
    burst=st.sampled_from([0.0, 2.0, 10.0]),
    output=st.integers(5, 20),
)
@examples(10)
def test_tenants_that_wait_stay_within_the_bound(engines: int, staleness: Seconds, burst: Seconds, output: int) -> None:
    weights = {"t": 1.0, "u": 2.0 * engines}
    runs = flood("t", 150, output) + flood("u", 150 * engines, output)
    results = Engine(Placed(engines, staleness, burst), PROFILE, label="S").serve(runs, weights)
    assert furthest_apart(results, weights) <= bound(engines, staleness, burst, output)


@pytest.mark.parametrize(("staleness", "holds"), [(0.5, True), (1e9, False)], ids=["read", "never read"])
def test_counters_that_are_never_read_break_the_bound(staleness: Seconds, holds: bool) -> None:
    weights = {"t": 1.0, "u": 2.0}
    runs = flood("t", 1500, 5) + flood("u", 6000, 5)
    results = Engine(Placed(2, staleness, 0.0), PROFILE, label="S").serve(runs, weights)
    assert (furthest_apart(results, weights) <= bound(2, 0.5, 0.0, 5)) is holds


def test_placement_by_what_is_outstanding_alone_is_that_of_several_engines_behind_one_front() -> None:
    runs = flood("t", 40, 9) + flood("u", 40, 20)
    fleet = Engine(OnArrival([policy(), policy()], PROFILE, SPACE), PROFILE, label="same").serve(runs, WEIGHTS)
    assert fleet == Engine([policy(), policy()], PROFILE, label="same").serve(runs, WEIGHTS)


class Looked(BoundOnArrival):
    """Notes after each exchange how far policies are apart in what a run has attained, of those that all have open."""

    apart = 0.0
    compared = 0

    def happen(self, moment: Seconds) -> None:
        exchanges = self.next_exchange <= moment
        super().happen(moment)
        if exchanges:
            policies = [line.policy for line in self.lines]
            for run in set.intersection(*(set(each.runs) for each in policies)):
                attained = [each.runs[run].attained for each in policies]
                self.apart = max(self.apart, max(attained) - min(attained))
                self.compared += attained[0] > 0


def looked(runs: Sequence[WorkloadRun], engines: int, *, share_runs: bool) -> Looked:
    fleet = Looked([policy() for _ in range(engines)], PROFILE, SPACE, entries(engines, 1), 0.5, runs=share_runs)
    Engine(fleet, PROFILE, label="S").serve(runs, WEIGHTS)
    return fleet


@given(runs=st.lists(RUN, min_size=4, max_size=12).map(built), engines=st.integers(2, 3))
@examples(25)
def test_a_run_has_attained_the_same_to_all_engines_wherever_it_is_served(
    runs: list[WorkloadRun], engines: int
) -> None:
    assert looked(runs, engines, share_runs=True).apart == pytest.approx(0.0, abs=1e-6)


def test_without_runs_shared_each_engine_sees_its_part_of_a_run() -> None:
    wide = WorkloadStage(tuple(WorkloadRequest(10, output) for output in (5, 20, 60)))
    runs = [WorkloadRun(RunId(f"r{n}"), TenantId("t"), ApplicationId("a"), 0.0, (wide, wide)) for n in range(4)]
    told, untold = (looked(runs, 2, share_runs=shared) for shared in (True, False))
    assert told.compared
    assert told.apart < 1e-6
    assert untold.compared
    assert untold.apart > 100
