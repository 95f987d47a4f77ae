"""What the stretched tag promises a run beside the others of its tenant, on a server that may change runs after each
unit of work. What a tenant is promised beside others: `test_weighted_finish.py`.

*Interference.* Whatever anybody predicts, until run j is done another run i of its tenant is served at most

    K_j - S_i        in all, and one unit

S_i its start tag, K_j the largest key with which j waited. *Finish.* If the tenant's other runs are predicted right, j
finishes no later than it would under GPS if its cost were kappa * max(E_j, theta * C_j), or kappa * E_j where it was
not under-predicted. The oracle of the second is `support.fluid_gps`.

What the tenant's others claim too much delays j at most as if it were true: its virtual time is shared with what they
claim. (Where they are of j's application, they also spoil its record, and j is taken for more than was told.)

A weaker-looking statement is stronger and false: GPS with j's cost and with its weight divided by kappa.
"""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.policies.tiered import THETA, TieredJustitia
from justitia_vocabulary.units import ApplicationId, TenantId
from support.examples import examples
from support.fluid_gps import Arrival, gps_finishes
from support.unit_server import UnitRun, UnitServer

costs = st.sampled_from([1, 2, 5, 10, 20, 60])
times = st.integers(0, 150)
tenants = st.sampled_from([TenantId(f"t{i}") for i in range(3)])
predicted_right = costs.flatmap(lambda cost: st.builds(UnitRun, times, st.just(cost), st.just(float(cost))))
predicted_too_much = st.builds(
    lambda at, cost, factor: UnitRun(at, cost, float(cost * factor)),
    times,
    costs,
    st.sampled_from([1, 2, 10, 1000]),
)
predicted_somehow = st.builds(UnitRun, times, costs, st.sampled_from([None, 0.1, 1.0, 5.0, 20.0, 100.0, 1e4]), tenants)


def open_gate(kappa: float | None = None) -> TieredJustitia:
    return TieredJustitia(KVTokenTimeCost(), kappa=kappa, beta=math.inf, burst=math.inf, heartbeat=math.inf)


def worst_interference(policy: TieredJustitia, runs: list[UnitRun]) -> float:
    """The most that a run was served beyond the bound before another one of its tenant was done."""
    server = UnitServer(policy, runs).serve()
    worst = -math.inf
    for j, log in server.logs.items():
        for i, served in log.at_finish.items():
            if i != j and runs[i].tenant == runs[j].tenant and served > log.others.get(i, 0):
                worst = max(worst, served - (log.key - server.logs[i].start))
    return worst


@given(runs=st.lists(predicted_somehow, min_size=2, max_size=12))
@examples(60)
def test_a_run_is_delayed_by_another_at_most_by_its_part_of_the_stretched_tag(runs: list[UnitRun]) -> None:
    assert worst_interference(open_gate(), runs) <= 1 + 1e-6


@given(others=st.lists(predicted_too_much, max_size=10), ours=predicted_right)
@examples(60)
def test_claims_of_too_much_delay_a_run_at_most_as_if_they_were_true(others: list[UnitRun], ours: UnitRun) -> None:
    """Each run is of its own application, whose record is not spoilt by the others' claims."""
    runs = [replace(run, application=ApplicationId(f"a{i}")) for i, run in enumerate([*others, ours])]
    finish = UnitServer(open_gate(), runs).serve().finishes()[-1]
    claimed = [Arrival(run.at, run.predicted or 0.0) for run in others]
    stretched = Arrival(ours.at, THETA * ours.cost)
    assert finish <= gps_finishes([*claimed, stretched], rate=1.0)[-1] + 1


def test_without_revision_a_run_that_claims_little_breaks_it() -> None:
    runs = [UnitRun(0, 60, 1.0), UnitRun(0, 5, 5.0)]
    never = TieredJustitia(
        KVTokenTimeCost(), kappa=THETA, theta=math.inf, beta=math.inf, burst=math.inf, heartbeat=math.inf
    )
    assert worst_interference(never, runs) > 10


@given(
    others=st.lists(predicted_right, max_size=10),
    ours=predicted_right,
    claim=st.sampled_from([0.01, 0.3, 1.0, 2.0, 10.0]),
    kappa=st.sampled_from([2.0, 5.0]),
)
@examples(60)
def test_a_run_finishes_no_later_than_a_stretched_one_under_gps(
    others: list[UnitRun], ours: UnitRun, claim: float, kappa: float
) -> None:
    claimed = replace(ours, predicted=claim * ours.cost)
    stretched = kappa * ours.cost * (claim if claim >= 1 else THETA)
    finish = UnitServer(open_gate(kappa), [*others, claimed]).serve().finishes()[-1]
    fair = [Arrival(run.at, run.cost) for run in others]
    assert finish <= gps_finishes([*fair, Arrival(ours.at, stretched)], rate=1.0)[-1] + 1


def test_a_run_is_later_than_under_gps_with_its_weight_divided_by_kappa() -> None:
    """kappa = 5: alone until 90 of 100 units are done, then overtaken by a run of 80, whose tag is 490, not 500."""
    runs = [UnitRun(0, 100, 100.0), UnitRun(90, 80, 80.0)]
    assert UnitServer(open_gate(5.0), runs).serve().finishes()[0] == 180
    assert gps_finishes([Arrival(0, 100, 1 / 5), Arrival(90, 80)], rate=1.0)[0] == pytest.approx(150)
    assert gps_finishes([Arrival(0, 100 * 5), Arrival(90, 80)], rate=1.0)[0] >= 180


def small_runs_without_end(start: int, count: int, gap: int) -> list[UnitRun]:
    return [UnitRun(start + i * gap, 10, 10.0) for i in range(count)]


def test_shortest_first_starves_a_large_run_and_the_stretched_tag_does_not() -> None:
    runs = [UnitRun(0, 30, 30.0), *small_runs_without_end(0, 400, 10)]
    fair = [Arrival(0, 30 * THETA), *[Arrival(run.at, run.cost) for run in runs[1:]]]
    bound = gps_finishes(fair, rate=1.0)[0]
    assert UnitServer(open_gate(), runs).serve().finishes()[0] <= bound + 1
    assert UnitServer(open_gate(kappa=1e9), runs).serve().finishes()[0] > bound + 1


def test_claims_of_too_much_do_slow_the_clock_for_others() -> None:
    """Runs of one unit that claim a million each hold virtual time back, so that small runs keep overtaking."""
    large, small = UnitRun(0, 30, 30.0), small_runs_without_end(0, 400, 10)
    claims = [UnitRun(0, 1, 1e6) for _ in range(30)]
    true = [Arrival(run.at, run.cost) for run in [*small, *claims]]
    finish = UnitServer(open_gate(), [*small, *claims, large]).serve().finishes()[-1]
    assert finish > gps_finishes([*true, Arrival(0, 30 * THETA)], rate=1.0)[-1] + 1
