"""Bounds on what a tenant can get ahead of another (ALGORITHMS: VTC bounds with weights; the gate's bound).

For tenants f and g that wait, with counters c = service / weight in the policy's own cost model:

    VTC      c_f - c_g <= U / weight_f
    gate     c_f - c_g <= B + U / weight_f

because f is served only while its counter is within the slack of g's, and what is in the engine afterwards can
be charged at most U. Over an interval in which both wait throughout, services differ by at most the sum of the
two one-sided bounds. Each bound has a negative control that breaks it.
"""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import CostModel, KVTokenTimeCost, WeightedTokens
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_scheduling.policies.vtc import VTC
from justitia_vocabulary.units import RequestId, TenantId
from support import backlog
from support.examples import examples
from support.preempting_engine import PreemptingEngine
from support.reserving_engine import Job, ReservingEngine

CAPACITY = 64
TENANTS = [TenantId(f"t{i}") for i in range(3)]
COSTS = [KVTokenTimeCost(), WeightedTokens()]

jobs = backlog.jobs(TENANTS, st.none() | st.floats(1, 1e6))
weights = backlog.weights(TENANTS)


def largest_in_engine(cost: CostModel, workload: list[Job]) -> float:
    """U of the bounds, from the workload itself and not from the policy."""
    longest = max(job.output for job in workload)
    match cost:
        case WeightedTokens():
            return 2.0 * CAPACITY
        case _:
            return float(CAPACITY * longest)


def excess(
    policy: Policy,
    workload: list[Job],
    weight: dict[TenantId, float],
    allowed: Callable[[TenantId], float],
    host: type[ReservingEngine] = ReservingEngine,
) -> float:
    """How far the bounds were overstepped at the worst moment; 0 or less where they held."""
    return max(
        (
            max(gap.service - allowed(gap.ahead) - allowed(gap.behind), gap.counter - allowed(gap.ahead))
            for gap in backlog.gaps(policy, CAPACITY, workload, weight, host)
        ),
        default=-math.inf,
    )


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.unit)
@given(workload=jobs, weight=weights)
@examples(60)
def test_vtc_keeps_waiting_tenants_within_its_bound(
    cost: CostModel, workload: list[Job], weight: dict[TenantId, float]
) -> None:
    u = largest_in_engine(cost, workload)
    assert excess(VTC(cost), workload, weight, lambda f: u / weight[f]) <= 1e-6


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.unit)
@given(workload=jobs, weight=weights, burst=st.floats(0, 2000), beta=st.sampled_from([0.0, 3.0, math.inf]))
@examples(60)
def test_the_gate_keeps_waiting_tenants_within_its_bound_whatever_is_predicted(
    cost: CostModel, workload: list[Job], weight: dict[TenantId, float], burst: float, beta: float
) -> None:
    u = largest_in_engine(cost, workload)
    policy = TieredJustitia(cost, burst=burst, beta=beta)
    assert excess(policy, workload, weight, lambda f: burst + u / weight[f]) <= 1e-6


@given(workload=jobs, weight=weights, burst=st.floats(0, 500), beta=st.sampled_from([0.0, 3.0, math.inf]))
@examples(60)
def test_the_gate_keeps_its_bound_under_preemption_because_the_preempted_pass_it_again(
    workload: list[Job], weight: dict[TenantId, float], burst: float, beta: float
) -> None:
    u = largest_in_engine(KVTokenTimeCost(), workload)
    policy = TieredJustitia(KVTokenTimeCost(), burst=burst, beta=beta)
    assert excess(policy, workload, weight, lambda f: burst + u / weight[f], PreemptingEngine) <= 1e-6


class PreemptedFirst(TieredJustitia):
    """As in the paper: who was preempted comes back before anybody else, past the gate."""

    def head(self) -> RequestId | None:
        return next((request.id for request in self.waiting() if request.preemptions), super().head())


class BoostedFirst(TieredJustitia):
    """Boosted requests go first, past the gate."""

    def head(self) -> RequestId | None:
        boosted = (r for r in self.waiting() if r.request.boosted_for)
        return next((request.id for request in boosted), super().head())


def test_boosted_requests_that_pass_the_gate_break_the_bound() -> None:
    """One tenant declares that all it floods with is boosted."""
    workload = [Job(TENANTS[0], 1, 20, boosted_for=1e9) for _ in range(200)] + flood(TENANTS[1], 60)
    u, equal = largest_in_engine(KVTokenTimeCost(), workload), dict.fromkeys(TENANTS, 1.0)
    assert excess(TieredJustitia(KVTokenTimeCost(), burst=0.0), workload, equal, lambda f: u) <= 0
    assert excess(BoostedFirst(KVTokenTimeCost(), burst=0.0), workload, equal, lambda f: u) > 0


def thrashing() -> list[Job]:
    """Long requests of small prompts fill the engine and preempt each other; the other tenant's are short."""
    hogs = [Job(TENANTS[0], 1, 30, predicted=1e6) for _ in range(60)]
    return hogs + [Job(TENANTS[1], 20, 4, arrival=i, predicted=1e6) for i in range(120)]


def test_preempted_first_breaks_the_bound() -> None:
    u = largest_in_engine(KVTokenTimeCost(), thrashing())
    equal = dict.fromkeys(TENANTS, 1.0)
    again = excess(TieredJustitia(KVTokenTimeCost(), burst=0.0), thrashing(), equal, lambda f: u, PreemptingEngine)
    first = excess(PreemptedFirst(KVTokenTimeCost(), burst=0.0), thrashing(), equal, lambda f: u, PreemptingEngine)
    assert again <= 0
    assert first > 0


def flood(tenant: TenantId, count: int, prompt: int = 10, output: int = 20, predicted: float = 1.0) -> list[Job]:
    return [Job(tenant, prompt, output, predicted=predicted) for _ in range(count)]


def test_the_vtc_bound_is_tight() -> None:
    """One request that fills the engine, admitted at equal counters, uses the bound up to its prompt."""
    whole = [Job(TENANTS[0], 1, CAPACITY - 1), Job(TENANTS[0], 1, 1), Job(TENANTS[1], 1, CAPACITY - 1)]
    policy = VTC(WeightedTokens())
    engine = ReservingEngine(policy, CAPACITY, whole)
    for _ in range(CAPACITY - 1):
        engine.tick()
    gap = policy.counters[TENANTS[0]] - policy.counters[TENANTS[1]]
    assert 0.95 * 2 * CAPACITY <= gap <= 2 * CAPACITY


def test_fcfs_breaks_the_bound() -> None:
    workload = flood(TENANTS[0], 60) + flood(TENANTS[1], 60)
    u = largest_in_engine(WeightedTokens(), workload)
    assert excess(FCFS(WeightedTokens()), workload, dict.fromkeys(TENANTS, 1.0), lambda f: u) > u


def test_ignoring_weights_breaks_the_bound() -> None:
    class Unweighted(VTC):
        def weight(self, tenant: TenantId) -> float:
            return 1.0

    workload = flood(TENANTS[0], 90) + flood(TENANTS[1], 90)
    weight = {TENANTS[0]: 4.0, TENANTS[1]: 1.0, TENANTS[2]: 1.0}
    u = largest_in_engine(WeightedTokens(), workload)
    assert excess(Unweighted(WeightedTokens()), workload, weight, lambda f: u / weight[f]) > 0
    assert excess(VTC(WeightedTokens()), workload, weight, lambda f: u / weight[f]) <= 0


def test_an_open_gate_breaks_the_bound_when_a_tenant_lies() -> None:
    class OpenGate(TieredJustitia):
        @property
        def burst(self) -> float:
            return math.inf

    workload = flood(TENANTS[0], 90, predicted=1.0) + flood(TENANTS[1], 90, predicted=1e9)
    u = largest_in_engine(WeightedTokens(), workload)
    equal = dict.fromkeys(TENANTS, 1.0)
    assert excess(OpenGate(WeightedTokens(), beta=math.inf), workload, equal, lambda f: 50 + u) > 0
    assert excess(TieredJustitia(WeightedTokens(), burst=50), workload, equal, lambda f: 50 + u) <= 0


@pytest.mark.parametrize("name", ["vtc", "tiered"])
def test_weights_1_2_4_are_met_in_a_long_flood(name: str) -> None:
    policy = VTC(WeightedTokens()) if name == "vtc" else TieredJustitia(WeightedTokens(), burst=100)
    weight = dict(zip(TENANTS, (1.0, 2.0, 4.0), strict=True))
    for tenant, w in weight.items():
        policy.set_weight(tenant, w, 0)
    workload = [job for tenant in TENANTS for job in flood(tenant, 700)]
    engine = ReservingEngine(policy, CAPACITY, workload)
    engine.tick()
    while len(engine.backlogged()) == len(TENANTS):
        engine.tick()
    per_weight = [policy.service[tenant] / weight[tenant] for tenant in TENANTS]
    assert max(per_weight) / min(per_weight) < 1.05
