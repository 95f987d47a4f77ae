"""How late a tenant's work, and each of its runs, can be, against a share of the engine of its own.

Let tenant g begin to wait at t0 and wait until it has been served X, and let W be the sum of all weights. Whatever the
others ask for, predict or claim, and whoever the heartbeat puts first, that is at the latest at

    t0 + W / w_g * X  +  (W - w_g) * (s + lead)  +  the sum over the others of U

s is the largest slack that g's first runs allowed in that time, at most beta * E / w_g for a run of estimate E; lead is
what g's counter was above the smallest of those that wait at t0: service that it has had already. `W / w_g * X` is the
time in which a server that is g's alone and as fast as g's share serves X. For a run of cost C that is alone in its
tenant and predicted right, X = C and s = beta * C / w_g: it ends within

    (1 + beta) * (its fair finish)  +  what it was ahead  +  what the engine holds

For several runs of one tenant, let X_j be what a fluid server that shares alike between them has served when run j is
done, if j costs kappa * E_j; the runs come to it when as much of the tenant's work is done as when they really came. If
they are predicted right, and the tenant had no open run before t0, j ends at the latest at

    t0 + (W + (W - w_g) * beta / kappa) / w_g * X_j  +  (W - w_g) * lead  +  the sum over the others of U

which is less than 1 + beta / kappa times its weighted fair finish, if it costs kappa * E_j, plus the rest.

The oracles read the times at which units are served, and neither counters nor tags (but for the lead).
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.policies.tenant_clocks import TenantClocks, _Clock
from justitia_scheduling.policies.tiered import BETA, THETA, TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, TenantId
from support.examples import examples
from support.fluid_gps import Arrival, gps_finishes
from support.unit_server import UnitRun, UnitServer

OURS, OUR_APPLICATION = TenantId("ours"), ApplicationId("ours")
OTHERS = [TenantId(f"t{i}") for i in range(3)]
WEIGHT = dict(zip([OURS, *OTHERS], (2.0, 1.0, 0.5, 4.0), strict=True))
TOTAL = sum(WEIGHT.values())

times = st.integers(0, 120)
costs = st.sampled_from([1, 2, 5, 20, 60])
claims = st.sampled_from([None, 0.01, 1.0, 20.0, 1e6])
theirs = st.lists(
    st.builds(UnitRun, times, costs, claims, st.sampled_from(OTHERS), boosted_for=st.none() | st.floats(1, 99)),
    min_size=1,
    max_size=25,
)


def our_run(at: int, cost: int) -> UnitRun:
    return UnitRun(at, cost, float(cost), OURS, OUR_APPLICATION)


ours = st.lists(st.builds(our_run, times, costs), min_size=1, max_size=6)


def policy(beta: float = BETA, heartbeat: float = 10.0, kind: type[TieredJustitia] = TieredJustitia) -> TieredJustitia:
    made = kind(KVTokenTimeCost(), beta=beta, heartbeat=heartbeat, burst=1e9)
    for tenant, weight in WEIGHT.items():
        made.set_weight(tenant, weight, 0)
    return made


@dataclass
class Spell:
    """A time in which our tenant waits: since when, its lead then, and after how much of its work its runs came."""

    since: int
    lead: float
    came_after: dict[int, int] = field(default_factory=dict)

    def fair_work(self, runs: Sequence[UnitRun], kappa: float) -> dict[int, float]:
        """X_j of each run, by a fluid server that serves no other tenant."""
        fair = {}
        for j in self.came_after:
            order = [j, *(i for i in self.came_after if i != j)]
            arrivals = [Arrival(self.came_after[i], runs[i].cost * (kappa if i == j else 1.0)) for i in order]
            fair[j] = gps_finishes(arrivals, rate=1.0)[0]
        return fair


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
        self.spells: list[Spell] = []

    def serve(self) -> Self:
        super().serve()
        return self

    def _serve(self, request: RequestId) -> None:
        counters = self.policy.counters
        if OURS in counters.waiting:
            if self._since is None:
                least = min(counters[tenant] for tenant in counters.waiting)
                self._since, self._lead, self._units = self.time, counters[OURS] - least, 0
                self.spells.append(Spell(self.time, self._lead))
            bound = TOTAL / WEIGHT[OURS] * self._units + (TOTAL - WEIGHT[OURS]) * self._lead + self._allowed_once
            self.late = max(self.late, self.time - self._since - bound)
            self._note_arrivals()
            self._units += self.runs[self._run_of[request]].tenant == OURS
        super()._serve(request)
        if OURS not in counters.waiting:
            self._since = None

    def _note_arrivals(self) -> None:
        """Say after how much of our work our new runs came."""
        spell = self.spells[-1]
        for i in self.logs:
            if self.runs[i].tenant == OURS and self._left[i]:
                spell.came_after.setdefault(i, self._units)

    def latest_run(self, kappa: float = THETA) -> float:
        """By how much our run that was latest was later than its bound."""
        weight, late = WEIGHT[OURS], -math.inf
        for spell in self.spells:
            rest = (TOTAL - weight) * spell.lead + len(OTHERS) + 1
            for j, finish in spell.fair_work(self.runs, kappa).items():
                bound = (TOTAL + (TOTAL - weight) * BETA / kappa) / weight * finish + rest
                late = max(late, self.logs[j].finished - spell.since - bound)
        return late


@given(theirs=theirs, ours=ours)
@examples(150)
def test_no_work_of_a_tenant_is_later_than_its_share_would_serve_it_by_more_than_its_own_slack(
    theirs: list[UnitRun], ours: list[UnitRun]
) -> None:
    assert Watched(policy(), [*theirs, *ours]).serve().late <= 1e-6


@given(theirs=theirs, ours=ours)
@examples(150)
def test_no_run_is_later_than_its_weighted_fair_finish_by_more_than_the_bound(
    theirs: list[UnitRun], ours: list[UnitRun]
) -> None:
    assert Watched(policy(), [*theirs, *ours]).serve().latest_run() <= 1e-6


class OneClock(TenantClocks):
    """All tenants' runs are on one clock, which other tenants' claims hold back."""

    def __init__(self) -> None:
        super().__init__()
        clock = _Clock()
        clock.open = 1
        self._clocks = defaultdict(lambda: clock)


class ByOneClock(TieredJustitia):
    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.clocks = OneClock()


def test_in_the_order_of_a_clock_that_others_can_hold_back_it_breaks() -> None:
    """Beside floods of small runs, behind which runs wait that claim a million."""
    claims = [UnitRun(0, 2, 1e6, tenant) for tenant in OTHERS for _ in range(10)]
    small = [our_run(at, 2) for at in range(0, 600, 6)]
    runs = [our_run(0, 4), *small, *flood(2, 2.0), *claims]
    assert Watched(policy(heartbeat=math.inf), runs).serve().latest_run() <= 0
    assert Watched(policy(heartbeat=math.inf, kind=ByOneClock), runs).serve().latest_run() > 0


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
