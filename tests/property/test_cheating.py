"""What a client gains, and what others lose, by misstating costs, cutting runs up, joining them, or keeping them open.

Between tenants the gate keeps its bound whatever is said: two tenants that wait get services that differ by at most
B + U, counted from when both had the same. Inside a tenant, a run that a client has kept open for long, of whatever
claims and whatever it asks for when, is served while an honest run j is there at most

    max(theta * E_i, theta^2 / (theta - 1) * E_j) and one unit

theta i's and E_i its estimate when j came: however old it is. `docs/design/tiered-justitia.md` derives both.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.model import kv_token_time
from justitia_scheduling.core.opened import OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.justitia import Justitia
from justitia_scheduling.policies.tenant_clocks import TenantClocks
from justitia_scheduling.policies.tiered import THETA, TieredJustitia
from justitia_vocabulary.units import ApplicationId, TenantId
from support.examples import examples
from support.fluid_gps import Arrival, gps_finishes
from support.reserving_engine import Job, ReservingEngine
from support.unit_server import UnitRun, UnitServer

CAPACITY = 64
BURST = 200.0
CHEAT, HONEST = TenantId("cheat"), TenantId("honest")


def runs_of(tenant: TenantId, count: int = 60) -> list[Job]:
    """Runs of four requests of 20 tokens, rightly predicted."""
    cost = 4 * kv_token_time(2, 20)
    return [Job(tenant, 2, 20, predicted=cost, run=f"{tenant}{i}") for i in range(count) for _ in range(4)]


CHEATS: dict[str, Callable[[int, Job], Job]] = {
    "honest": lambda i, job: job,
    "claims little": lambda i, job: replace(job, predicted=1.0),
    "claims much": lambda i, job: replace(job, predicted=1e9),
    "one run for each request": lambda i, job: replace(job, run=None, predicted=kv_token_time(2, 20)),
    "one run for everything": lambda i, job: replace(job, run="cheat", predicted=1.0),
    "a name for each application": lambda i, job: replace(job, application=f"a{i}", predicted=None),
    "gives up before the end": lambda i, job: replace(job, gives_up_after=19, predicted=1.0),
}


def cheats_lead(policy: Policy, cheat: str) -> float:
    """How far the cheat's service was ahead of the honest tenant's, at most, while both waited."""
    jobs = [CHEATS[cheat](i, job) for i, job in enumerate(runs_of(CHEAT))]
    engine = ReservingEngine(policy, CAPACITY, [*runs_of(HONEST), *jobs])
    engine.tick()
    lead = 0.0
    while len(engine.backlogged()) == 2:
        lead = max(lead, policy.service[CHEAT] - policy.service[HONEST])
        engine.tick()
    return lead


LEAD = BURST + CAPACITY * 20
"""B + U: four runs' worth of service."""


@pytest.mark.parametrize("cheat", CHEATS)
def test_no_cheat_takes_more_from_another_tenant_than_the_gate_allows(cheat: str) -> None:
    assert cheats_lead(TieredJustitia(KVTokenTimeCost(), burst=BURST), cheat) <= LEAD


@pytest.mark.parametrize("cheat", ["claims little", "one run for each request", "gives up before the end"])
def test_under_the_papers_rule_a_cheat_pays(cheat: str) -> None:
    assert cheats_lead(Justitia(KVTokenTimeCost()), "honest") <= LEAD
    assert cheats_lead(Justitia(KVTokenTimeCost()), cheat) > LEAD


@pytest.mark.parametrize("cheat", ["claims little", "one run for each request"])
def test_with_an_open_gate_a_cheat_pays(cheat: str) -> None:
    open_gate = TieredJustitia(KVTokenTimeCost(), burst=math.inf, beta=math.inf)
    assert cheats_lead(open_gate, cheat) > LEAD


def inside_one_tenant() -> TieredJustitia:
    return TieredJustitia(KVTokenTimeCost(), beta=math.inf, burst=math.inf)


def largest_overtaking(policy: TieredJustitia, honest: list[UnitRun], cheats: list[UnitRun]) -> float:
    """The most that a cheat was served beyond the bound while an honest run was there."""
    logs = UnitServer(policy, [*honest, *cheats]).serve().logs
    worst = -math.inf
    for j, run in enumerate(honest):
        for i, served in logs[j].at_finish.items():
            if i >= len(honest) and (meanwhile := served - logs[j].others.get(i, 0)):
                estimate, theta = logs[j].estimates.get(i, run.cost), cheats[i - len(honest)].theta
                allowed = max(theta * estimate, theta**2 / (theta - 1) * run.cost)
                worst = max(worst, meanwhile - allowed)
    return worst


honest_runs = st.lists(
    st.builds(lambda at, cost: UnitRun(at, cost, float(cost)), st.integers(0, 400), st.sampled_from([1, 3, 10, 30])),
    min_size=1,
    max_size=10,
)
cheating_runs = st.lists(
    st.builds(
        UnitRun,
        at=st.integers(0, 200),
        cost=st.integers(1, 10),
        predicted=st.none() | st.sampled_from([0.1, 1.0, 10.0, 100.0]),
        application=st.sampled_from([ApplicationId(name) for name in "abcde"]),
        trickle=st.lists(st.tuples(st.integers(201, 500), st.integers(1, 40)), max_size=4).map(sorted),
    ),
    min_size=1,
    max_size=4,
)


@given(honest=honest_runs, cheats=cheating_runs)
@examples(80)
def test_a_run_that_arrived_before_overtakes_by_no_more_than_its_estimate_however_old_it_is(
    honest: list[UnitRun], cheats: list[UnitRun]
) -> None:
    assert largest_overtaking(inside_one_tenant(), honest, cheats) <= 1 + 1e-6


class WithoutLift(TenantClocks):
    def lift(self, run: OpenRun, work: float) -> None:
        pass


class NeverLifted(TieredJustitia):
    """Revised as the policy revises, the start tag never raised."""

    def __init__(self) -> None:
        super().__init__(KVTokenTimeCost(), beta=math.inf, burst=math.inf)
        self.clocks = WithoutLift()


def kept_open(age: int) -> tuple[list[UnitRun], list[UnitRun]]:
    """Honest runs all the time, and one that asks for a unit at first and, `age` old, for 300 more, one at a time."""
    honest = [UnitRun(at, 10, 10.0) for at in range(0, age + 400, 10)]
    return honest, [UnitRun(0, 1, 10.0, trickle=tuple((age + i, 1) for i in range(300)))]


@pytest.mark.parametrize("age", [500, 2000, 4000])
def test_a_run_kept_open_has_no_more_priority_the_older_it_is(age: int) -> None:
    assert largest_overtaking(inside_one_tenant(), *kept_open(age)) <= 1


def test_without_the_lift_at_a_revision_a_run_kept_open_overtakes_without_bound() -> None:
    young = largest_overtaking(NeverLifted(), *kept_open(500))
    old = largest_overtaking(NeverLifted(), *kept_open(4000))
    assert old > young > 1


def beside_large_runs(claims: float) -> list[UnitRun]:
    """60 honest runs, and large ones that claim `claims` of their cost."""
    honest = [UnitRun(30 * i, 10, 10.0) for i in range(60)]
    return honest + [UnitRun(300 * i, 300, 300.0 * claims) for i in range(4)]


def mean_delay(finishes: Sequence[float]) -> float:
    """Mean completion time of the honest runs."""
    return sum(finishes[i] - 30 * i for i in range(60)) / 60


def test_large_runs_that_claim_a_thousandth_make_honest_ones_as_late_as_stretched_ones_under_gps() -> None:
    honest_twin = mean_delay(UnitServer(inside_one_tenant(), beside_large_runs(1.0)).serve().finishes())
    lied = mean_delay(UnitServer(inside_one_tenant(), beside_large_runs(0.001)).serve().finishes())
    stands = TieredJustitia(KVTokenTimeCost(), kappa=1.0, theta=math.inf, beta=math.inf, burst=math.inf)
    never = mean_delay(UnitServer(stands, beside_large_runs(0.001)).serve().finishes())
    fair = mean_delay(gps_finishes([Arrival(run.at, run.cost) for run in beside_large_runs(1.0)], rate=1.0))
    assert lied <= THETA * fair
    assert never > 10 * fair
    assert honest_twin < fair


def test_claiming_much_only_delays_the_claimant() -> None:
    honest = [UnitRun(20 * i, 10, 10.0) for i in range(60)]
    large = [UnitRun(100 * i, 100, 100.0, application=ApplicationId("large")) for i in range(6)]
    liars = [replace(run, predicted=1e6) for run in large]
    truthful = UnitServer(inside_one_tenant(), [*honest, *large]).serve().finishes()
    lying = UnitServer(inside_one_tenant(), [*honest, *liars]).serve().finishes()
    assert all(after <= before for before, after in zip(truthful[:60], lying[:60], strict=True))
    assert all(after >= before for before, after in zip(truthful[60:], lying[60:], strict=True))
