"""How two policies compare on one workload, run by run.

A run is later if its completion time (JCT) exceeds the one under the other policy by more than 10 % and by more than
2 s. The largest decile is the tenth of the runs with most cost. Figures are ours divided by theirs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LATER_FRACTION = 0.10
LATER_SECONDS = 2.0

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """Ratios of the mean, of percentiles and of the largest decile's mean; the part of runs that are not later; the
    largest ratio of a single run.
    """

    mean: float
    p99: float
    largest_decile: float
    not_later: float
    worst: float


def compare(ours: Sequence[float], theirs: Sequence[float], costs: Sequence[float]) -> Comparison:
    """JCT in seconds and true cost of each run, all in the same order. Raises ValueError unless each has all runs."""
    a, b, cost = (np.array(values, dtype=float) for values in (ours, theirs, costs))
    if not len(a) == len(b) == len(cost) > 0:
        raise ValueError(f"{len(a)}, {len(b)} and {len(cost)} runs to compare: need the same ones of each")
    largest = np.argsort(-cost, kind="stable")[: math.ceil(len(a) / 10)]
    return Comparison(
        mean=float(a.mean() / b.mean()),
        p99=float(np.percentile(a, 99) / np.percentile(b, 99)),
        largest_decile=float(a[largest].mean() / b[largest].mean()),
        not_later=float(1 - later(a, b).mean()),
        worst=float((a / b).max()),
    )


def later(ours: Array, theirs: Array) -> npt.NDArray[np.bool_]:
    """Which runs are."""
    return ours > theirs + np.maximum(LATER_FRACTION * theirs, LATER_SECONDS)
