"""The censored mean, and the track record of predictions."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.estimate import FIRST_ESTIMATE, REMEMBERED_RUNS, CensoredMean, Ratio, TrackRecord
from justitia_scheduling.core.model import Run
from justitia_scheduling.core.opened import OpenRun
from justitia_vocabulary.units import ApplicationId, RunId, TenantId

A, B = ApplicationId("a"), ApplicationId("b")


def run(name: str, application: ApplicationId = A) -> OpenRun:
    return OpenRun(Run(RunId(name), TenantId("t"), application), 0, 0.0)


def attain(estimates: CensoredMean, of: OpenRun, cost: float) -> None:
    of.attained += cost
    estimates.attained(of, cost)


def test_before_anything_has_finished_every_application_starts_at_the_first_estimate() -> None:
    assert CensoredMean().estimate(A) == FIRST_ESTIMATE


def test_open_runs_count_with_what_they_have_attained() -> None:
    estimates, done, long = CensoredMean(), run("done"), run("long")
    attain(estimates, done, 100)
    attain(estimates, long, 900)
    estimates.ended(done)
    assert estimates.estimate(A) == 1000
    estimates.ended(long)
    assert estimates.estimate(A) == 500


def test_a_young_application_takes_the_larger_of_the_pools_mean_and_its_own_revised_estimate() -> None:
    estimates, other, own = CensoredMean(), run("other", B), run("own")
    attain(estimates, other, 100)
    estimates.ended(other)
    assert estimates.estimate(A) == 100
    estimates.revised(own, 700)
    assert estimates.estimate(A) == 700


def test_an_aborted_run_leaves_no_trace() -> None:
    estimates, done, gone = CensoredMean(), run("done"), run("gone")
    attain(estimates, done, 100)
    attain(estimates, gone, 5000)
    gone.aborted = True
    estimates.ended(done)
    estimates.ended(gone)
    assert estimates.estimate(A) == 100


costs = st.floats(1, 1e9)


def test_an_application_has_no_mean_of_its_own_until_a_run_has_finished() -> None:
    estimates, done = CensoredMean(), run("done")
    attain(estimates, done, 100)
    assert estimates.of(A) is None
    estimates.ended(done)
    assert (estimates.of(A), estimates.of(B)) == (100, None)


@given(st.lists(st.tuples(costs, costs), max_size=20), costs, costs)
def test_predictions_that_come_true_are_taken_to_the_digit(
    finished: list[tuple[float, float]], told: float, mean: float
) -> None:
    record = TrackRecord()
    for cost, mean_then in finished:
        record.finished(cost, mean_then, cost)
    assert record.expected(told, mean) == told


def test_told_and_mean_count_for_the_inverse_of_their_squared_errors() -> None:
    record = TrackRecord()
    for factor in (4, 1 / 4, 4, 1 / 4):
        record.finished(told=100 * factor, mean=100 * math.sqrt(factor), cost=100)
    assert record.expected(told=1000, mean=10) == pytest.approx(1000**0.2 * 10**0.8)
    assert TrackRecord().expected(told=1000, mean=10) == 1000


@given(st.lists(st.tuples(costs, costs, costs), max_size=20), st.floats(0, 1e9), costs)
def test_the_estimate_lies_between_what_was_told_and_the_mean(
    finished: list[tuple[float, float, float]], told: float, mean: float
) -> None:
    record = TrackRecord()
    for each in finished:
        record.finished(*each)
    low, high = sorted((told, mean))
    assert low * (1 - 1e-9) <= record.expected(told, mean) <= max(high, 1.0) * (1 + 1e-9)


@pytest.mark.parametrize(("spread", "noise"), [(1.0, 0.6), (0.5, 1.0), (1.0, 1.0)])
def test_it_is_nearer_to_the_cost_than_what_was_told_and_than_the_mean(spread: float, noise: float) -> None:
    record, rng = TrackRecord(), random.Random(1)
    squares = []
    for _ in range(2000):
        cost = math.exp(10 + rng.gauss(0, spread))
        told, mean = cost * math.exp(rng.gauss(0, noise)), math.exp(10)
        squares.append([math.log(cost / e) ** 2 for e in (record.expected(told, mean), told, mean)])
        record.finished(told, mean, cost)
    ours, of_told, of_mean = (sum(column) / len(squares) for column in zip(*squares, strict=True))
    assert ours < 0.9 * min(of_told, of_mean)
    assert ours == pytest.approx(1 / (1 / spread**2 + 1 / noise**2), rel=0.1)


def test_a_predictor_that_has_become_good_is_believed_again() -> None:
    record = TrackRecord()
    for _ in range(1000):
        record.finished(told=1e6, mean=150, cost=100)
    assert record.expected(told=100, mean=1000) > 900
    for _ in range(REMEMBERED_RUNS):
        record.finished(told=100, mean=150, cost=100)
    assert record.expected(told=100, mean=1000) == 100


def test_the_pools_mean_is_of_all_that_its_applications_have_had() -> None:
    estimates, first, second = CensoredMean(), run("first", B), run("second", ApplicationId("c"))
    for of, costs_of_it in ((first, (100, 200)), (second, (300, 400))):
        for cost in costs_of_it:
            attain(estimates, of, cost)
        estimates.ended(of)
    assert estimates.estimate(A) == 500


def test_a_ratio_is_the_applications_else_the_pools_else_nothing() -> None:
    ratio = Ratio()
    assert ratio.of(A) == 0
    for application, upper, lower in ((A, 10, 1), (A, 20, 2), (B, 5, 5), (B, 1, 7)):
        ratio.add_upper(application, upper)
        ratio.add_lower(application, lower)
    assert (ratio.of(A), ratio.of(B)) == (30 / 3, 6 / 12)
    assert ratio.of(ApplicationId("new")) == 36 / 15
