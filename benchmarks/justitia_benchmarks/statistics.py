"""Figures with their spread. Every interval is a two-sided 95 % confidence interval over seeds.

- :func:`mean_interval`: Student's t, `mean ± t(0.975, n - 1) * s / sqrt(n)`.
- :func:`paired_ratio`: each seed gives one ratio of two policies on the same workload; the estimate is the geometric
  mean of the ratios, its interval Student's t on their logarithms. So A ÷ B is exactly 1 ÷ (B ÷ A).

Student's distribution function for whole degrees of freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` seeds and the bounds of its interval; with one seed the bounds are the mean itself."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def text(self) -> str:
        """`0.425 (0.400 to 0.450, n = 20)`, three significant digits."""
        spread = f"{digits(self.low)} to {digits(self.high)}, " if self.n > 1 else ""
        return f"{digits(self.mean)} ({spread}n = {self.n})"

    @property
    def percent(self) -> str:
        """The same as a change against 1: `−58 % (−60 % to −55 %, n = 20)`."""
        spread = f"{_change(self.low)} to {_change(self.high)}, " if self.n > 1 else ""
        return f"{_change(self.mean)} ({spread}n = {self.n})"


def digits(value: float) -> str:
    """Three significant digits, no exponent up to a million."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.2e}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def mean_interval(values: Sequence[float]) -> Estimate:
    """Mean and interval of independent values. Raises ValueError without any."""
    if not values:
        raise ValueError("no values to take the mean of")
    mean, n = fmean(values), len(values)
    half = t_quantile(n - 1) * stdev(values) / math.sqrt(n) if n > 1 else 0.0
    return Estimate(mean, mean - half, mean + half, n)


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """Geometric mean of ours[i] / theirs[i], i the seed. Raises ValueError unless all are positive and paired."""
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    e = mean_interval(logs)
    return Estimate(math.exp(e.mean), math.exp(e.low), math.exp(e.high), e.n)


def quantile(values: Sequence[float], q: float) -> float:
    """Linear between closest ranks."""
    return float(np.quantile(np.asarray(values, dtype=float), q))


def quantile_interval(values_by_seed: Sequence[Sequence[float]], q: float) -> Estimate:
    """Mean over seeds of each seed's quantile."""
    return mean_interval([quantile(values, q) for values in values_by_seed])


@cache
def t_quantile(degrees: int) -> float:
    """The value that Student's t exceeds in size with probability 1 - CONFIDENCE."""
    low, high = 0.0, 1.0
    while _within(high, degrees) < CONFIDENCE:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < CONFIDENCE else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """P(|T| < t)."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, degrees, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _change(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %".replace("-", "−")
