"""KV that is kept in pauses widens the gate's bound by what may be kept and not charged yet, and by no more.

K = rho M is the cost of the whole KV space that is kept as long as it is worth (docs/design/turns.md). Services W count
what is kept at the moment at which it is. Tenants f and g that wait are apart by

    W_f / w_f - W_g / w_g <= 2 B + (U + K) / w_f + (U + K) / w_g

because what is in the engine when f is admitted, in the batch or kept, can still be charged U + K at most: it is M
tokens at most, and each is charged for rho iterations at most once its request is over.
"""

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.units import KVTokenTime, TenantId, Tokens
from support import backlog
from support.examples import examples
from support.keeping_engine import WORTH, KeepingEngine
from support.reserving_engine import Job

CAPACITY = 64
TENANTS = [TenantId(f"t{i}") for i in range(3)]


class KeptForNothing(KVTokenTimeCost):
    """The control: what is kept is not charged."""

    def keeping(self, kv_token_time: KVTokenTime, capacity: Tokens) -> float:
        return 0.0


def excess(cost: KVTokenTimeCost, workload: list[Job], weight: dict[TenantId, float], burst: float) -> float:
    """How far the bound was overstepped at the worst moment; 0 or less where it held."""
    policy = TieredJustitia(cost, burst=burst)
    for tenant, w in weight.items():
        policy.set_weight(tenant, w, 0)
    engine = KeepingEngine(policy, CAPACITY, workload)
    most = CAPACITY * max(job.output for job in workload) + WORTH * CAPACITY
    worst, since = -math.inf, dict[tuple[TenantId, TenantId], float]()
    while not engine.done:
        engine.tick()
        had = {tenant: _had(engine, tenant) / w for tenant, w in weight.items()}
        for f, g in permutations(weight, 2):
            if not {f, g} <= engine.backlogged():
                since.pop((f, g), None)
                continue
            gap = had[f] - had[g]
            start = since.setdefault((f, g), gap)
            worst = max(worst, gap - start - 2 * burst - most / weight[f] - most / weight[g])
    return worst


def _had(engine: KeepingEngine, tenant: TenantId) -> float:
    """All that was done for the tenant, what runs included."""
    running = [(engine.jobs[r], engine.produced[r]) for r in engine.policy.running]
    own = sum(job.prompt * d + d * (d + 1) // 2 for job, d in running if job.tenant == tenant)
    return float(engine.done_for[tenant] + own)


@given(
    workload=backlog.jobs(TENANTS, st.none() | st.floats(1, 1e6)),
    weight=backlog.weights(TENANTS),
    burst=st.floats(0, 500),
)
@examples(60)
def test_waiting_tenants_stay_within_the_wider_bound(
    workload: list[Job], weight: dict[TenantId, float], burst: float
) -> None:
    assert excess(KVTokenTimeCost(), workload, weight, burst) <= 1e-6


@pytest.mark.parametrize(("cost", "holds"), [(KVTokenTimeCost(), True), (KeptForNothing(), False)])
def test_who_keeps_much_is_held_back_only_if_that_is_charged(cost: KVTokenTimeCost, holds: bool) -> None:
    """One tenant's runs read a prompt for one token and never come back; the other's work."""
    keeps, works = TENANTS[:2]
    workload = [Job(keeps, 10, 1, predicted=1.0) for _ in range(300)] + [Job(works, 2, 10) for _ in range(300)]
    assert (excess(cost, workload, {keeps: 1.0, works: 1.0}, 100.0) <= 0) is holds
