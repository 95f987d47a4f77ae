"""Gamma: equation 9 against theory, and its window against a slow definition."""

import math
import random

import pytest

from justitia_scheduling.core.tailslope import GAMMA, SMOOTHING, WINDOW, TailSlope, tail_slope

RATES = [(1.0, 0.8), (2.0, 0.5), (0.05, 0.04)]


def percentile(mu: float, lam: float, p: float) -> float:
    """The time in an M/M/1 queue under FCFS is exponential with rate mu - lambda."""
    return -math.log(1 - p) / (mu - lam)


@pytest.mark.parametrize(("mu", "lam"), RATES)
def test_with_the_percentiles_of_fcfs_in_m_m_1_it_is_mu_minus_lambda(mu: float, lam: float) -> None:
    t95, t99 = percentile(mu, lam, 0.95), percentile(mu, lam, 0.99)
    assert tail_slope(t95, t99) == pytest.approx(mu - lam, rel=1e-12)
    algorithm_1 = (math.log(99) - math.log(95)) / (t99 - t95)
    assert algorithm_1 == pytest.approx((mu - lam) / 39, rel=0.01), "the paper's listing: another quantity"


@pytest.mark.parametrize(("mu", "lam"), RATES)
def test_it_settles_at_mu_minus_lambda_when_fed_with_such_times(mu: float, lam: float) -> None:
    tail = TailSlope()
    times = [percentile(mu, lam, (i + 0.5) / WINDOW) for i in range(WINDOW)]
    random.Random(1).shuffle(times)
    for _ in range(3):
        for t in times:
            tail.observe(t)
    assert tail.gamma == pytest.approx(mu - lam, rel=0.1)


def by_definition(times: list[float], lowest: float, highest: float) -> float:
    gamma = GAMMA
    for end in range(WINDOW // 10, len(times) + 1, WINDOW // 10):
        window = sorted(times[max(0, end - WINDOW) : end])
        below = [sum(t <= x for t in window) / len(window) for x in window]
        t95, t99 = (next(x for x, share in zip(window, below, strict=True) if share >= p) for p in (0.95, 0.99))
        estimate = min(max(math.log(5) / (t99 - t95), lowest), highest)
        gamma = min(max((1 - SMOOTHING) * gamma + SMOOTHING * estimate, lowest), highest)
    return gamma


@pytest.mark.parametrize("count", [99, 100, 350, 1550])
def test_it_is_the_moving_average_of_equation_9_over_the_last_window(count: int) -> None:
    source = random.Random(count)
    times = [round(source.expovariate(0.3), 3) for _ in range(count)]
    tail = TailSlope()
    for t in times:
        tail.observe(t)
    assert tail.gamma == pytest.approx(by_definition(times, 1e-3, 10.0))


def test_it_forgets_what_is_older_than_the_window() -> None:
    slow_first, fast_only = TailSlope(), TailSlope()
    source = random.Random(3)
    for _ in range(WINDOW):
        slow_first.observe(source.expovariate(0.01))
    for _ in range(5 * WINDOW):
        t = source.expovariate(1.0)
        slow_first.observe(t)
        fast_only.observe(t)
    assert slow_first.gamma == pytest.approx(fast_only.gamma, rel=1e-3)


def test_bounds_hold_from_the_moment_they_are_set_and_equal_ones_fix_gamma() -> None:
    tail = TailSlope()
    tail.bound(0.5, 0.6)
    assert tail.gamma == 0.5
    for i in range(WINDOW):
        tail.observe(float(i % 2))
    assert 0.5 < tail.gamma <= 0.6
    tail.bound(0.25, 0.25)
    for i in range(WINDOW):
        tail.observe(1000.0 * i)
    assert tail.gamma == 0.25


def test_the_estimate_goes_on_beyond_the_bounds_and_is_in_effect_once_they_give_way() -> None:
    bounded, free = TailSlope(), TailSlope()
    bounded.bound(5.0, 5.0)
    source = random.Random(4)
    for _ in range(WINDOW):
        t = source.expovariate(1.0)
        bounded.observe(t)
        free.observe(t)
    assert bounded.gamma == 5.0
    assert bounded.estimate == free.estimate == free.gamma
    bounded.bound(1e-3, 10.0)
    assert bounded.gamma == free.gamma


def test_a_tail_without_width_moves_it_towards_its_upper_bound() -> None:
    tail = TailSlope(highest=2.0)
    for _ in range(5 * WINDOW):
        tail.observe(1.0)
    assert tail.gamma == pytest.approx(2.0)


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (2.0, 1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_impossible_bounds_are_refused_and_change_nothing(bounds: tuple[float, float]) -> None:
    tail = TailSlope(0.3)
    with pytest.raises(ValueError, match="0 < lowest <= highest, finite"):
        tail.bound(*bounds)
    assert tail.gamma == 0.3
