"""A figure is beaten by a whole interval, reached by a mean."""

import pytest

from justitia_benchmarks.experiment import PaperVerdict, at_least, at_most
from justitia_benchmarks.statistics import Estimate

BEATEN, REACHED, NOT_REACHED = PaperVerdict.BEATEN, PaperVerdict.REACHED, PaperVerdict.NOT_REACHED


@pytest.mark.parametrize(
    ("low", "mean", "high", "n", "verdict"),
    [
        (0.30, 0.35, 0.41, 20, BEATEN),
        (0.30, 0.40, 0.50, 20, REACHED),
        (0.38, 0.42, 0.46, 20, REACHED),
        (0.38, 0.43, 0.48, 20, NOT_REACHED),
        (0.35, 0.35, 0.35, 1, REACHED),
    ],
    ids=["interval below", "mean below", "mean equal", "only the lower end below", "one seed has no interval"],
)
def test_less_is_better(low: float, mean: float, high: float, n: int, verdict: PaperVerdict) -> None:
    assert at_most(Estimate(mean, low, high, n), 0.42) is verdict
    assert at_least(Estimate(-mean, -high, -low, n), -0.42) is verdict, "more is better: the mirror image"


@pytest.mark.parametrize(
    ("high", "mean", "verdict"), [(0.99, 0.9, BEATEN), (1.2, 1.1, REACHED), (1.15, 1.11, NOT_REACHED)]
)
def test_close_to_is_reached_within_the_margin_and_beaten_without_it(
    high: float, mean: float, verdict: PaperVerdict
) -> None:
    assert at_most(Estimate(mean, 0.8, high, 20), 1.0, within=0.1) is verdict
