"""How late a tenant's work can be, against a share of the engine of its own.

Let tenant g begin to wait at t0 and wait until it has been served X, and let W be the sum of all weights. Whatever the
others ask for, predict or claim, and whoever the heartbeat puts first, that is at the latest at

    t0 + W / w_g * X  +  (W - w_g) * (s + lead)  +  the sum over the others of U

s is the largest slack that g's first runs allowed in that time, at most beta * E / w_g for a run of estimate E; lead is
what g's counter was above the smallest of those that wait at t0: service that it has had already. `W / w_g * X` is the
time in which a server that is g's alone and as fast as g's share serves X. For a run of cost C that is alone in its
tenant and predicted right, X = C and s = beta * C / w_g: it ends within

    (1 + beta) * (its fair finish)  +  what it was ahead  +  what the engine holds

The oracle reads the times at which units are served, and neither counters nor tags (but for the lead).
"""

import math
from collections.abc import Sequence
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.policies.tiered import BETA, TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, TenantId
from support.examples import examples
from support.unit_server import UnitRun, UnitServer

OURS, OUR_APPLICATION = TenantId("ours"), ApplicationId("ours")
OTHERS = [TenantId(f"t{i}") for i in range(3)]
WEIGHT = dict(zip([OURS, *OTHERS], (2.0, 1.0, 0.5, 4.0), strict=True))
TOTAL = sum(WEIGHT.values())

times = st.integers(0, 120)
costs = st.sampled_from([1, 2, 5, 20, 60])
claims = st.sampled_from([None, 0.01, 1.0, 20.0, 1e6])
theirs = st.lists(st.builds(UnitRun, times, costs, claims, st.sampled_from(OTHERS)), min_size=1, max_size=25)


def our_run(at: int, cost: int) -> UnitRun:
    return UnitRun(at, cost, float(cost), OURS, OUR_APPLICATION)


ours = st.lists(st.builds(our_run, times, costs), min_size=1, max_size=6)


def policy(beta: float = BETA, heartbeat: float = 10.0) -> TieredJustitia:
    made = TieredJustitia(KVTokenTimeCost(), beta=beta, heartbeat=heartbeat, burst=1e9)
    for tenant, weight in WEIGHT.items():
        made.set_weight(tenant, weight, 0)
    return made


class Watched(UnitServer):
    """`late` is by how much our tenant was later than the bound at the worst moment; what the engine holds is a unit of
    each other tenant.
    """

    def __init__(self, policy: TieredJustitia, runs: Sequence[UnitRun]) -> None:
        super().__init__(policy, runs)
        self.late = -math.inf
        largest = max(run.cost for run in runs if run.tenant == OURS)
        self._allowed_once = (TOTAL - WEIGHT[OURS]) * BETA * largest / WEIGHT[OURS] + len(OTHERS)
        self._since: int | None = None
        self._lead = 0.0
        self._units = 0

    def serve(self) -> Self:
        super().serve()
        return self

    def _serve(self, request: RequestId) -> None:
        counters = self.policy.counters
        if OURS in counters.waiting:
            if self._since is None:
                least = min(counters[tenant] for tenant in counters.waiting)
                self._since, self._lead, self._units = self.time, counters[OURS] - least, 0
            bound = TOTAL / WEIGHT[OURS] * self._units + (TOTAL - WEIGHT[OURS]) * self._lead + self._allowed_once
            self.late = max(self.late, self.time - self._since - bound)
            self._units += self.runs[self._run_of[request]].tenant == OURS
        super()._serve(request)
        if OURS not in counters.waiting:
            self._since = None


@given(theirs=theirs, ours=ours)
@examples(150)
def test_no_work_of_a_tenant_is_later_than_its_share_would_serve_it_by_more_than_its_own_slack(
    theirs: list[UnitRun], ours: list[UnitRun]
) -> None:
    assert Watched(policy(), [*theirs, *ours]).serve().late <= 1e-6


def flood(cost: int, claim: float) -> list[UnitRun]:
    """Runs of the other tenants, all there from the beginning and more than is served."""
    return [UnitRun(0, cost, claim, tenant) for tenant in OTHERS for _ in range(800 // cost)]


@pytest.mark.parametrize("heartbeat", [10.0, math.inf])
@pytest.mark.parametrize("claim", [0.01, 1.0, 1e6])
def test_a_run_alone_in_its_tenant_ends_within_one_and_beta_times_its_fair_finish(
    claim: float, heartbeat: float
) -> None:
    """Beside floods from the beginning. Without a heartbeat three quarters of what is allowed are used."""
    runs = [*flood(2, claim), our_run(20, 40)]
    fair = TOTAL / WEIGHT[OURS] * 40
    finish = UnitServer(policy(heartbeat=heartbeat), runs).serve().finishes()[-1] - 20
    assert finish <= (1 + BETA) * fair + len(OTHERS) + 1
    if claim < 1 and heartbeat == math.inf:
        assert finish > 0.75 * (1 + BETA) * fair


@pytest.mark.parametrize("beta", [4 * BETA, math.inf])
def test_a_wider_gate_breaks_it(beta: float) -> None:
    runs = [*flood(2, 0.01), our_run(20, 40)]
    assert Watched(policy(beta, math.inf), runs).serve().late > 0
