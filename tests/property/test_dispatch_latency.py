"""How long a tenant that comes back to VTC can be made to wait, with weights (VTC, Theorem 4.11, has them equal).

Let f's request arrive at t, none of f's waiting, and be admitted at s. Then another tenant j is served meanwhile

    W_j(t, s) <= U * (1 + weight_j / weight_f)          and U more if nothing of j waited at t

1. c_f(s) <= c_min(t) + U / weight_f: since its last admission, when it was the smallest, f was charged at most what
   it then had in the engine; a lift puts it at c_min at most; and c_min, the smallest waiting counter, never falls.
2. j is admitted only while c_j <= c_f, so c_j(s) <= c_f(s) + U / weight_j, for the same reason.
3. If j waited at t, c_j(t) >= c_min(t); so W_j <= weight_j * (c_j(s) - c_j(t)) <= weight_j * (U/weight_f + U/weight_j).
   If not, it may have U in the engine at t, and is lifted to c_min when it comes back.

Divided by the least service a of an iteration, the sum over j is the dispatch latency. Where weights change on the
way, a charge is divided by the weight of its moment: then divisors are the least weights that f and j have had, and
the factor in front is the largest that j has had.
"""

import math
import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import CostModel, KVTokenTimeCost, WeightedTokens
from justitia_scheduling.core.counters import Counters
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_scheduling.policies.vtc import VTC
from justitia_vocabulary.units import RequestId, TenantId
from support.examples import examples
from support.reserving_engine import Job, ReservingEngine

CAPACITY = 64
F, J, K = TENANTS = [TenantId("f"), TenantId("j"), TenantId("k")]
COSTS = [KVTokenTimeCost(), WeightedTokens()]


@dataclass
class Return:
    """A request of a tenant of which none waited: what had been served, and who waited, when it came."""

    tenant: TenantId
    served: dict[TenantId, float]
    waiting: set[TenantId]


class WatchedEngine(ReservingEngine):
    """Records for each return what the others were served until it was dispatched, and who waited at first."""

    def __init__(self, policy: Policy, jobs: list[Job]) -> None:
        super().__init__(policy, CAPACITY, jobs)
        self._returns: dict[RequestId, Return] = {}
        self.dispatched: list[tuple[Return, dict[TenantId, float]]] = []

    def arrive(self, request: RequestId, now: float) -> None:
        tenant = self.jobs[request].tenant
        if tenant not in self.backlogged():
            self._returns[request] = Return(tenant, dict(self.policy.service), self.backlogged())
        super().arrive(request, now)

    def admitted(self, request: RequestId, now: float) -> None:
        if (back := self._returns.pop(request, None)) is not None:
            meanwhile = {j: self.policy.service.get(j, 0.0) - back.served.get(j, 0.0) for j in TENANTS}
            self.dispatched.append((back, meanwhile))
        super().admitted(request, now)


@dataclass(frozen=True)
class Reweight:
    at: int
    tenant: TenantId
    weight: float


def largest_share_of_bound(policy: Policy, jobs: list[Job], reweights: list[Reweight], u: float) -> float:
    """The largest W_j / bound of any return; the first of `reweights` are at 0, one for each tenant."""
    engine = WatchedEngine(policy, jobs)
    while not engine.done:
        for change in reweights:
            if change.at == engine.iteration:
                policy.set_weight(change.tenant, change.weight, 0)
        engine.tick()
    had = {tenant: [change.weight for change in reweights if change.tenant == tenant] for tenant in TENANTS}
    worst = 0.0
    for back, meanwhile in engine.dispatched:
        for j in set(TENANTS) - {back.tenant}:
            parts = max(had[j]) / min(had[j]) + max(had[j]) / min(had[back.tenant])
            worst = max(worst, meanwhile[j] / (u * (parts + (j not in back.waiting))))
    return worst


def in_engine(cost: CostModel, jobs: list[Job]) -> float:
    """U, from the workload itself."""
    return 2.0 * CAPACITY if isinstance(cost, WeightedTokens) else float(CAPACITY * max(job.output for job in jobs))


jobs_strategy = st.lists(
    st.builds(
        Job, st.sampled_from(TENANTS), prompt=st.integers(1, 30), output=st.integers(1, 34), arrival=st.integers(0, 150)
    ),
    min_size=20,
    max_size=60,
)
weight_strategy = st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0])
first_weights = st.tuples(weight_strategy, weight_strategy, weight_strategy).map(
    lambda weights: [Reweight(0, tenant, weight) for tenant, weight in zip(TENANTS, weights, strict=True)]
)
reweights_strategy = st.lists(st.builds(Reweight, st.integers(1, 200), st.sampled_from(TENANTS), weight_strategy))


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.unit)
@given(jobs=jobs_strategy, weights=first_weights)
@examples(60)
def test_a_tenant_that_comes_back_waits_for_a_bounded_service_of_each_other(
    cost: CostModel, jobs: list[Job], weights: list[Reweight]
) -> None:
    assert largest_share_of_bound(VTC(cost), jobs, weights, in_engine(cost, jobs)) <= 1 + 1e-9


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.unit)
@given(jobs=jobs_strategy, weights=first_weights, reweights=reweights_strategy)
@examples(60)
def test_the_bound_of_extreme_weights_holds_through_reweights(
    cost: CostModel, jobs: list[Job], weights: list[Reweight], reweights: list[Reweight]
) -> None:
    assert largest_share_of_bound(VTC(cost), jobs, [*weights, *reweights], in_engine(cost, jobs)) <= 1 + 1e-9


@pytest.mark.parametrize("burst", [None, 0.0, 100.0], ids=["vtc", "gate without slack", "gate"])
@given(jobs=jobs_strategy, weights=first_weights, reweights=reweights_strategy)
@examples(40)
def test_counters_of_waiting_tenants_stay_within_b_and_u_over_the_least_weight_through_reweights(
    burst: float | None, jobs: list[Job], weights: list[Reweight], reweights: list[Reweight]
) -> None:
    policy = VTC(WeightedTokens()) if burst is None else TieredJustitia(WeightedTokens(), burst=burst, beta=math.inf)
    engine = ReservingEngine(policy, CAPACITY, jobs)
    least = dict.fromkeys(TENANTS, float("inf"))
    while not engine.done:
        for change in [*weights, *reweights]:
            if change.at == engine.iteration:
                policy.set_weight(change.tenant, change.weight, 0)
                least[change.tenant] = min(least[change.tenant], change.weight)
        engine.tick()
        waiting = [policy.counters[tenant] for tenant in engine.backlogged()]
        for f in engine.backlogged():
            assert policy.counters[f] - min(waiting) <= (burst or 0.0) + 2 * CAPACITY / least[f] + 1e-9


def whole_engine(tenant: TenantId, arrival: int = 0) -> Job:
    return Job(tenant, 1, CAPACITY - 1, arrival)


def test_the_dispatch_bound_is_reached_to_three_quarters() -> None:
    """f fills the engine, comes back when that is over; a tenant of four times its weight catches up first."""
    jobs = [whole_engine(F), *[whole_engine(J) for _ in range(10)], whole_engine(F, CAPACITY - 1)]
    weights = [Reweight(0, F, 1.0), Reweight(0, J, 4.0), Reweight(0, K, 1.0)]
    u = in_engine(WeightedTokens(), jobs)
    assert 0.75 <= largest_share_of_bound(VTC(WeightedTokens()), jobs, weights, u) <= 1


def equal() -> list[Reweight]:
    return [Reweight(0, tenant, 1.0) for tenant in TENANTS]


def test_first_come_first_served_breaks_the_dispatch_bound() -> None:
    jobs = [*[whole_engine(J) for _ in range(10)], whole_engine(F, 1)]
    assert largest_share_of_bound(FCFS(WeightedTokens()), jobs, equal(), in_engine(WeightedTokens(), jobs)) > 1


def absence_then_flood() -> list[Job]:
    """k and f share the engine while j is away; then j floods, k being away."""
    shared = [whole_engine(tenant) for _ in range(8) for tenant in (F, K)]
    return [*shared, *[whole_engine(J, 900) for _ in range(12)], whole_engine(F, 1100)]


def test_without_the_lift_a_tenant_that_was_away_breaks_the_dispatch_bound() -> None:
    jobs = absence_then_flood()
    without = VTC(WeightedTokens())
    without.counters = Counters(lift=False)
    assert largest_share_of_bound(without, jobs, equal(), in_engine(WeightedTokens(), jobs)) > 1
    assert largest_share_of_bound(VTC(WeightedTokens()), jobs, equal(), in_engine(WeightedTokens(), jobs)) <= 1


def counters(*events: tuple[str, TenantId, float]) -> Counters:
    """Counters after `waits`, `leaves` and `is charged`."""
    kept = Counters()
    for event, tenant, charge in events:
        match event:
            case "waits":
                kept.enqueue(tenant)
            case "leaves":
                kept.dequeue(tenant)
            case _:
                kept.charge(tenant, charge, 1.0)
    return kept


LIFTS = {
    "to the smallest that waits": ([("waits", J, 0), ("is charged", J, 9), ("waits", F, 0)], 9),
    "not to one that only runs": (
        [
            ("waits", J, 0),
            ("waits", K, 0),
            ("leaves", K, 0),
            ("is charged", J, 9),
            ("is charged", K, 5),
            ("waits", F, 0),
        ],
        9,
    ),
    "to the last that left an empty queue": (
        [
            ("waits", K, 0),
            ("waits", J, 0),
            ("leaves", K, 0),
            ("leaves", J, 0),
            ("is charged", K, 5),
            ("is charged", J, 9),
            ("waits", F, 0),
        ],
        9,
    ),
    "never down": ([("waits", F, 0), ("leaves", F, 0), ("is charged", F, 9), ("waits", J, 0), ("waits", F, 0)], 9),
    "though its own still run": (
        [
            ("waits", F, 0),
            ("leaves", F, 0),
            ("waits", J, 0),
            ("is charged", J, 9),
            ("is charged", F, 2),
            ("waits", F, 0),
        ],
        9,
    ),
    "not while one of its own waits": ([("waits", F, 0), ("waits", J, 0), ("is charged", J, 9), ("waits", F, 0)], 0),
}


@pytest.mark.parametrize(("events", "expected"), LIFTS.values(), ids=LIFTS)
def test_a_tenant_that_comes_back_is_lifted(events: list[tuple[str, TenantId, float]], expected: float) -> None:
    assert counters(*events)[F] == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_returning_tenant_of_a_long_trace_uses_a_good_part_of_the_bound(seed: int) -> None:
    draw = random.Random(seed)
    jobs = [
        Job(draw.choice(TENANTS), draw.randint(1, 30), draw.randint(1, 34), draw.randint(0, 2500)) for _ in range(300)
    ]
    share = largest_share_of_bound(VTC(WeightedTokens()), jobs, equal(), in_engine(WeightedTokens(), jobs))
    assert 0.2 <= share <= 1
