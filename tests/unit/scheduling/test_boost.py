"""The boost, and the engine seconds that tokens stand for."""

import math

import pytest

from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.model import Progress, Step
from justitia_scheduling.policies.boost import UNSEEN, TokenTime, boost
from justitia_scheduling.policies.uniboost import quantised
from justitia_vocabulary.units import RequestId

A, B = RequestId("a"), RequestId("b")


def test_half_gone_work_is_boosted_by_one_over_gamma_times_log_two() -> None:
    assert boost(math.log(2), 1.0) == pytest.approx(math.log(2))
    assert boost(math.log(2) / 5, 5.0) == pytest.approx(math.log(2) / 5)


@pytest.mark.parametrize("gamma", [0.001, 0.1, 10.0])
def test_it_falls_with_work_and_is_never_negative(gamma: float) -> None:
    boosts = [boost(work, gamma) for work in (0.0, 1e-300, 1e-6, 0.01, 1.0, 5.0, 1e3, 1e9)]
    assert boosts[0] == math.inf
    assert boosts == sorted(boosts, reverse=True)
    assert len(set(boosts[:4])) == 4
    assert min(boosts) >= 0


@pytest.mark.parametrize("work", [1e-12, 1e-9])
def test_small_work_keeps_its_digits(work: float) -> None:
    assert boost(work, 0.1) == pytest.approx(-math.log(0.1 * work) / 0.1, rel=1e-9)


def test_work_is_rounded_down_to_the_quantum_times_a_power_of_two() -> None:
    assert [quantised(w) for w in (0, 1, 255, 256, 511, 512, 10_000)] == [256, 256, 256, 256, 256, 512, 8192]
    for k in (1, 3, 64):
        for w in range(1, 5000):
            assert quantised(w, k) == k * 2 ** math.floor(math.log2(max(w, k) / k))


def step(seconds: float | None, prefilled: int = 0, decoded: int = 0, recomputed: int = 0) -> Step:
    return Step([Progress(A, prefilled, 0, recomputed), Progress(B, produced=decoded)], seconds)


def test_seconds_of_all_tokens_sum_to_the_time_the_engine_was_busy() -> None:
    times = TokenTime()
    for _ in range(1000):
        times.observe(step(0.4, prefilled=2000))
        times.observe(step(0.02, decoded=10))
        times.observe(step(0.08, decoded=30))
    assert 2000 * times.prefill() == pytest.approx(0.4)
    assert 40 * times.decode(1) == pytest.approx(0.1, rel=0.02)


def test_a_mixed_step_is_split_evenly_over_its_tokens_and_recomputation_counts_as_prefill() -> None:
    times = TokenTime()
    times.observe(step(0.1, prefilled=60, recomputed=30, decoded=10))
    assert times.prefill() == pytest.approx(0.001)
    assert times.decode(1) == pytest.approx(0.001)


def test_steps_without_duration_or_tokens_teach_nothing() -> None:
    times = TokenTime(StepTime(0.04, 0.001, 0.0))
    for useless in (step(None, decoded=5), step(0.0, decoded=5), step(0.5)):
        times.observe(useless)
    assert times.prefill() == 0.001
    assert times.decode(8) == pytest.approx(0.006), "those that run share the fixed part of a step"
    assert TokenTime().prefill() == UNSEEN.per_token
