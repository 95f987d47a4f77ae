"""Intervals: against published quantiles of Student's t, and by how often they hold the true mean."""

import random

import pytest

from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio, quantile_interval, t_quantile


@pytest.mark.parametrize(
    ("degrees", "value"),
    [(1, 12.706205), (2, 4.302653), (3, 3.182446), (4, 2.776445), (9, 2.262157), (10, 2.228139), (30, 2.042272),
     (100, 1.983972), (1000, 1.962339)],
)  # fmt: skip
def test_students_quantile_is_the_tabled_one(degrees: int, value: float) -> None:
    assert t_quantile(degrees) == pytest.approx(value, abs=1e-6)


def test_a_mean_has_the_interval_computed_by_hand() -> None:
    # s = 2, so the half-width is 2.776445 * 2 / sqrt(5) with four degrees of freedom
    e = mean_interval([8.0, 10.0, 12.0, 8.0, 12.0])
    assert (e.mean, e.n) == (10.0, 5)
    assert (e.low, e.high) == (pytest.approx(10 - 2.483327, abs=1e-5), pytest.approx(10 + 2.483327, abs=1e-5))


def test_an_interval_holds_the_true_mean_in_95_of_100_samples() -> None:
    rng = random.Random(1)
    samples = 4000
    held = sum(
        e.low <= 3.0 <= e.high for e in (mean_interval([rng.gauss(3, 2) for _ in range(5)]) for _ in range(samples))
    )
    assert held / samples == pytest.approx(0.95, abs=0.012)


def test_one_seed_has_no_spread_to_show() -> None:
    assert mean_interval([2.0]) == Estimate(2.0, 2.0, 2.0, 1)
    assert mean_interval([2.0]).text == "2.00 (n = 1)"


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])


def test_a_paired_ratio_does_not_see_what_both_policies_share() -> None:
    loads = [1.0, 10.0, 100.0, 1000.0]
    e = paired_ratio([0.5 * x for x in loads], loads)
    assert (e.mean, e.low, e.high) == (pytest.approx(0.5), pytest.approx(0.5), pytest.approx(0.5))


def test_a_ratio_turned_round_is_its_inverse() -> None:
    a, b = [1.0, 3.0, 2.0], [2.0, 2.5, 5.0]
    forth, back = paired_ratio(a, b), paired_ratio(b, a)
    assert forth.mean == pytest.approx(1 / back.mean)
    assert forth.low == pytest.approx(1 / back.high)


def test_ratios_of_seeds_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1.0, 2.0], [1.0])


def test_a_quantile_is_averaged_over_seeds() -> None:
    assert quantile_interval([[0.0, 10.0], [10.0, 20.0]], 0.9).mean == 14.0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.4249, "0.425"), (12.34, "12.3"), (1234.5, "1,234"), (0.0, "0"), (0.001234, "0.00123"), (2.5e7, "2.50e+07"),
     (-3.14159, "-3.14"), (9.996, "10.00")],
)  # fmt: skip
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_a_ratio_reads_as_a_change_too() -> None:
    assert Estimate(0.424, 0.4, 0.451, 20).percent == "−58 % (−60 % to −55 %, n = 20)"
