import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.step_time import PRIOR, StepTimeFit, nonnegative_least_squares


def duration(t: StepTime, tokens: int, kv_tokens: int) -> float:
    return t.per_step + t.per_token * tokens + t.per_kv_token * kv_tokens


def observe(fit: StepTimeFit, truth: StepTime, n: int, rng: random.Random, stalls: float = 0.0) -> None:
    for _ in range(n):
        tokens = rng.choice([1, 4, 16, 64, 512])
        kv_tokens = rng.randrange(20_000)
        interval = duration(truth, tokens, kv_tokens) * rng.uniform(0.9, 1.1)
        if rng.random() < stalls:
            interval += 3.0
        fit.observe(interval, 1, tokens, kv_tokens)


TYPICAL = [(1, 100), (16, 4000), (64, 10_000), (512, 15_000)]


@settings(max_examples=15)
@given(st.floats(0.0005, 0.05), st.floats(0.00001, 0.001), st.floats(0, 0.00001), st.integers(0, 2**32))
def test_finds_the_step_time_of_a_synthetic_engine(c0: float, c_tok: float, c_kv: float, seed: int) -> None:
    truth = StepTime(c0, c_tok, c_kv)
    fit = StepTimeFit()
    observe(fit, truth, 3000, random.Random(seed))
    for tokens, kv_tokens in TYPICAL:
        assert duration(fit.step_time, tokens, kv_tokens) == pytest.approx(
            duration(truth, tokens, kv_tokens), rel=0.25, abs=0.001
        )


def test_several_steps_in_one_interval_are_as_good_as_one_each() -> None:
    truth = StepTime(0.005, 0.0001, 0.000001)
    fit = StepTimeFit()
    rng = random.Random(1)
    for _ in range(6000):
        steps, tokens, kv_tokens = rng.randint(1, 5), rng.randint(1, 64), rng.randrange(10_000)
        fit.observe(steps * duration(truth, tokens, kv_tokens), steps, steps * tokens, kv_tokens)
    assert duration(fit.step_time, 16, 4000) == pytest.approx(duration(truth, 16, 4000), rel=0.05)


def test_rare_stalls_hardly_move_the_fit() -> None:
    truth = StepTime(0.010, 0.0001, 0.000001)
    fit = StepTimeFit()
    observe(fit, truth, 4000, random.Random(2), stalls=0.01)
    assert duration(fit.step_time, 16, 4000) == pytest.approx(duration(truth, 16, 4000), rel=0.15)


def test_an_engine_that_turned_ten_times_slower_is_followed() -> None:
    fit = StepTimeFit()
    rng = random.Random(3)
    observe(fit, StepTime(0.002, 0.00005, 0.0000005), 3000, rng)
    slower = StepTime(0.02, 0.0005, 0.000005)
    observe(fit, slower, 8000, rng)
    assert duration(fit.step_time, 16, 4000) == pytest.approx(duration(slower, 16, 4000), rel=0.2)


def test_without_data_the_prior_is_in_effect() -> None:
    fit = StepTimeFit()
    fit.observe(-1.0, 1, 1, 1)
    fit.observe(1.0, 0, 1, 1)
    assert fit.step_time == PRIOR
    assert fit.observed == 0


def test_a_load_that_excites_one_direction_only_keeps_the_others_sane() -> None:
    fit = StepTimeFit()
    for _ in range(5000):
        fit.observe(0.004, 1, 1, 100)
    t = fit.step_time
    assert duration(t, 1, 100) == pytest.approx(0.004, rel=0.1)
    assert 0 <= t.per_token <= 10 * PRIOR.per_token
    assert 0 <= t.per_kv_token <= 10 * PRIOR.per_kv_token


@given(
    st.lists(st.lists(st.floats(-3, 3), min_size=3, max_size=3), min_size=3, max_size=3),
    st.lists(st.floats(-5, 5), min_size=3, max_size=3),
    st.lists(st.floats(0, 3), min_size=3, max_size=3),
)
def test_no_nonnegative_point_is_better_than_the_solution(
    root: list[list[float]], moment: list[float], other: list[float]
) -> None:
    matrix = [[sum(root[k][i] * root[k][j] for k in range(3)) + (i == j) for j in range(3)] for i in range(3)]

    def value(c: list[float]) -> float:
        return sum(c[i] * c[j] * matrix[i][j] for i in range(3) for j in range(3)) - 2 * sum(
            a * b for a, b in zip(c, moment, strict=True)
        )

    best = nonnegative_least_squares(matrix, moment)
    assert min(best) >= 0
    assert value(best) <= value(other) + 1e-9
