"""Whether one of two predictions of the same runs errs less, however often one looks.

The bounds are those of an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas,
"Time-uniform central limit theory and asymptotic confidence sequences", one-sided): with the given confidence the mean
difference is above the lower bound at all times at once. A test for a single look would, if it were repeated after each
run, sooner or later say yes to anything.
"""

import math
from collections.abc import Iterable

from justitia_api.status import ErrorSums

MOST_LOG_ERROR = 16.0
"""The largest factor that is shown: errors beyond it are shown as this."""


def added(parts: Iterable[ErrorSums]) -> ErrorSums:
    """Adds up the errors of several pods, over all their runs."""
    return sum(parts, ErrorSums())


def errs_less(sums: ErrorSums, confidence: float, least_runs: int) -> bool:
    """Whether the model's error is shown to be smaller than that of its baseline."""
    return sums.runs >= least_runs and _gain(sums) > _uncertainty(sums, confidence, least_runs)


def errs_more(sums: ErrorSums, confidence: float, least_runs: int) -> bool:
    """Whether the model's error is shown to be larger than that of its baseline."""
    return sums.runs >= least_runs and -_gain(sums) > _uncertainty(sums, confidence, least_runs)


def percent(error: float, runs: int) -> int | None:
    """Converts a mean error to the factor by which a prediction is off, in percent. None without runs."""
    return round(100 * math.expm1(min(error / runs, MOST_LOG_ERROR))) if runs else None


def _gain(sums: ErrorSums) -> float:
    """The mean of baseline minus error."""
    return (sums.baseline - sums.error) / sums.runs


def _uncertainty(sums: ErrorSums, confidence: float, least_runs: int) -> float:
    """How far the mean of so many runs may be from the true one. It is tightest at twice the least number of runs."""
    runs, alpha = sums.runs, 1 - confidence
    variance = max(sums.squared_difference / runs - _gain(sums) ** 2, 0.0) * runs / max(runs - 1, 1)
    log = -2 * math.log(alpha)
    spread = (log + math.log(log + 1)) / (2 * least_runs)
    width = 2 * (runs * spread + 1) / (runs**2 * spread) * math.log1p(math.sqrt(runs * spread + 1) / (2 * alpha))
    return math.sqrt(variance * width)
