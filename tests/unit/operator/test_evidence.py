"""What errors of two predictions show, looked at after each run."""

import math
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_api.status import ErrorSums
from justitia_operator.learning.evidence import added, errs_less, errs_more, percent

LEAST = 30
CONFIDENCE = 0.95
RUNS = 600


def sums_of(errors: np.ndarray, baselines: np.ndarray) -> ErrorSums:
    return ErrorSums(
        runs=len(errors),
        error=float(errors.sum()),
        baseline=float(baselines.sum()),
        squared_difference=float(((baselines - errors) ** 2).sum()),
    )


def shown_ever(gain: float, seeds: int, runs: int = RUNS) -> float:
    """Share of seeds in which a model with this mean gain is, at some look, shown to err less."""
    shown = 0
    for seed in range(seeds):
        draw = np.random.default_rng(seed)
        errors, baselines = draw.gamma(2, 0.25, runs), draw.gamma(2, 0.25, runs) + gain
        looks = (sums_of(errors[:n], baselines[:n]) for n in range(LEAST, runs + 1, 5))
        shown += any(errs_less(sums, CONFIDENCE, LEAST) for sums in looks)
    return shown / seeds


def peeking_ever(seeds: int) -> float:
    """The same for equal models, with the interval for one look: the negative control."""
    shown = 0
    for seed in range(seeds):
        draw = np.random.default_rng(seed)
        gains = draw.gamma(2, 0.25, RUNS) - draw.gamma(2, 0.25, RUNS)
        shown += any(gains[:n].mean() > 1.645 * gains[:n].std(ddof=1) / math.sqrt(n) for n in range(LEAST, RUNS + 1, 5))
    return shown / seeds


def test_equal_models_are_seldom_told_apart_however_often_one_looks() -> None:
    assert shown_ever(0.0, seeds=200) <= 0.06
    assert peeking_ever(seeds=200) > 0.15


def test_a_model_that_errs_much_less_is_shown_soon() -> None:
    assert shown_ever(0.5, seeds=50, runs=2 * LEAST) >= 0.95


def test_a_worse_model_is_never_shown_to_err_less_and_the_signs_mirror() -> None:
    draw = np.random.default_rng(1)
    errors, baselines = draw.gamma(2, 0.5, 200), draw.gamma(2, 0.25, 200)
    assert errs_more(sums_of(errors, baselines), CONFIDENCE, LEAST)
    assert not errs_less(sums_of(errors, baselines), CONFIDENCE, LEAST)
    assert errs_less(sums_of(baselines, errors), CONFIDENCE, LEAST)


@pytest.mark.parametrize("gain", [0.0, 0.3])
def test_too_few_runs_show_nothing(gain: float) -> None:
    errors = np.full(LEAST - 1, 0.1)
    assert not errs_less(sums_of(errors, errors + gain), CONFIDENCE, LEAST)


def test_equal_errors_on_every_run_show_nothing() -> None:
    errors = np.full(10 * LEAST, 0.4)
    sums = sums_of(errors, errors)
    assert not errs_less(sums, CONFIDENCE, LEAST)
    assert not errs_more(sums, CONFIDENCE, LEAST)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=60), st.integers(1, 5))
def test_pods_add_up_to_what_one_pod_would_have_seen(pairs: list[tuple[float, float]], pods: int) -> None:
    whole = sums_of(np.array([e for e, _ in pairs]), np.array([b for _, b in pairs]))
    parts = [pairs[i::pods] for i in range(pods)]
    together = added(sums_of(np.array([e for e, _ in part]), np.array([b for _, b in part])) for part in parts)
    assert together.runs == whole.runs
    assert together.error == pytest.approx(whole.error)
    assert together.baseline == pytest.approx(whole.baseline)
    assert together.squared_difference == pytest.approx(whole.squared_difference)


def test_an_error_is_told_as_a_factor() -> None:
    assert percent(math.log(2) * 7, 7) == 100
    assert percent(0.0, 3) == 0
    assert percent(0.0, 0) is None


def test_confidence_makes_the_bound_wider() -> None:
    draw = np.random.default_rng(3)
    errors, baselines = draw.gamma(2, 0.25, 400), draw.gamma(2, 0.25, 400) + 0.1
    looks = [sums_of(errors[:n], baselines[:n]) for n in accumulate([LEAST] + [5] * 70)]
    first = [next((s.runs for s in looks if errs_less(s, c, LEAST)), 1000) for c in (0.5, 0.9, 0.99)]
    assert first == sorted(first)
