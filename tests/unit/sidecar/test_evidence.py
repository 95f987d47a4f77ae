"""Sums of errors count each run once, on the models that it began with, and begin again when those change."""

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from justitia_api.config import LearningConfig
from justitia_api.status import ErrorSums
from justitia_sidecar.learning.evidence import HALF_WINDOW, MOST_ERROR, Evidence, PairedErrors, error_of, in_canary

A, B, C = ("a" * 64, "b" * 64, "c" * 64)


def learning(version: str | None = None, candidate: str | None = None, percent: int = 0) -> LearningConfig:
    return LearningConfig(name="uid", version=version, candidate=candidate, canary_percent=percent)


def evidence(version: str | None = None, candidate: str | None = None, cost: float | None = 10.0) -> Evidence:
    """With one run over that had this cost."""
    found = Evidence()
    found.configure(learning(version, candidate))
    if cost is not None:
        found.end(found.begin(), {}, cost)
    return found


def one_run(error: float, baseline: float) -> ErrorSums:
    return ErrorSums(runs=1, error=error, baseline=baseline, squared_difference=(baseline - error) ** 2)


def alike(one: ErrorSums, other: ErrorSums) -> bool:
    return one.model_dump() == pytest.approx(other.model_dump())


def test_a_version_is_compared_with_the_mean_of_the_runs_that_were_over_when_the_run_began() -> None:
    found = evidence(A)
    begun = found.begin()
    found.end(found.begin(), {}, 30.0)
    found.end(begun, {A: 20.0}, 10.0)
    assert alike(found.version_errors.since_start, one_run(math.log(2), 0.0))
    mean = (10.0 * 30.0 * 10.0) ** (1 / 3)
    found.end(found.begin(), {A: mean}, mean)
    assert found.version_errors.since_start.baseline == pytest.approx(0)
    assert found.version_errors.since_start.runs == 2


def test_a_model_that_tells_nothing_does_not_err_less_than_the_mean() -> None:
    """It would err less than an arithmetic mean, which few large runs decide."""
    found = evidence(None, B, cost=None)
    draw = random.Random(1)
    for _ in range(400):
        cost = math.exp(draw.gauss(10, 2))
        found.end(found.begin(), {B: math.exp(10)}, cost)
    sums = found.candidate_errors.since_start
    assert sums.error == pytest.approx(sums.baseline, rel=0.02)


def test_where_no_run_was_over_there_is_nothing_to_compare_with() -> None:
    found = evidence(A, B, cost=None)
    begun = found.begin()
    found.end(found.begin(), {}, 10.0)
    found.end(begun, {A: 20.0, B: 40.0}, 10.0)
    assert found.version_errors.since_start.runs == 0
    assert found.candidate_errors.since_start == one_run(math.log(4), math.log(2))


@pytest.mark.parametrize("version", [None, A])
def test_a_candidate_is_compared_with_the_mean_where_no_version_predicted(version: str | None) -> None:
    found = evidence(version, B)
    found.end(found.begin(), {B: 20.0}, 40.0)
    assert alike(found.candidate_errors.since_start, one_run(math.log(2), math.log(4)))
    assert found.version_errors.since_start.runs == 0


def test_sums_begin_anew_with_another_version_or_another_rival() -> None:
    found = evidence(A, B)
    found.end(found.begin(), {A: 1.0, B: 1.0}, 1.0)
    found.configure(learning(A, B, percent=50))
    assert (found.version_errors.since_start.runs, found.candidate_errors.since_start.runs) == (1, 1)
    found.configure(learning(A, C))
    assert (found.version_errors.since_start.runs, found.candidate_errors.since_start.runs) == (1, 0)
    found.end(found.begin(), {A: 1.0, C: 1.0}, 1.0)
    found.configure(learning(B, C))
    assert (found.version_errors.since_start.runs, found.candidate_errors.since_start.runs) == (0, 0)


def test_a_run_that_began_before_counts_for_nothing_that_came_later() -> None:
    found = evidence(A, B)
    begun = found.begin()
    found.configure(learning(B, None))
    found.configure(learning(A, B))
    found.end(begun, {A: 1.0, B: 1.0}, 1.0)
    assert (found.version_errors.since_start.runs, found.candidate_errors.since_start.runs) == (0, 0)


def test_a_promoted_candidate_does_not_bring_its_sums_along() -> None:
    found = evidence(A, B)
    found.end(found.begin(), {A: 1.0, B: 1.0}, 1.0)
    found.configure(learning(B))
    assert found.version_errors.since_start.runs == 0


def test_one_run_says_no_more_than_so_much() -> None:
    assert error_of(1e30, 1.0) == error_of(1.0, 1e30) == MOST_ERROR


@given(st.lists(st.floats(0, MOST_ERROR), max_size=450))
def test_recent_are_the_last_hundred_at_least_and_two_hundred_at_most(errors: list[float]) -> None:
    comparison = PairedErrors()
    for each in errors:
        comparison.add(each, 1.0)
    recent = comparison.recent
    assert min(len(errors), HALF_WINDOW) <= recent.runs <= 2 * HALF_WINDOW
    assert recent.error == pytest.approx(sum(errors[len(errors) - recent.runs :]))
    assert comparison.since_start.runs == len(errors)


@given(st.text(max_size=40), st.integers(0, 100), st.integers(0, 100))
@example("no text: \ud800", 10, 50)
def test_canaries_are_nested(run: str, one: int, other: int) -> None:
    less, more = sorted((one, other))
    assert in_canary(learning(A, B, less), run) <= in_canary(learning(A, B, more), run)


@given(st.integers(0, 2**64))
def test_all_runs_or_none(number: int) -> None:
    run = f"{number:x}"
    assert in_canary(learning(A, B, 100), run)
    assert not in_canary(learning(A, B, 0), run)


@given(st.integers(0, 100), st.text(max_size=20))
def test_the_share_is_right(percent: int, prefix: str) -> None:
    runs, config = 2000, learning(A, B, percent)
    chosen = sum(in_canary(config, f"{prefix}{number}") for number in range(runs))
    # Six standard deviations of a fair draw.
    share = percent / 100
    assert abs(chosen - runs * share) <= 6 * math.sqrt(runs * share * (1 - share))
