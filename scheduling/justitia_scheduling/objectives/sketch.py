"""Quantiles of a stream within one per cent, from counts that add up over replicas and moments.

A positive value v is counted in bucket i = ceil(log_r(v)), r = (1 + a) / (1 - a), which holds r^(i-1) < v <= r^i. Each
of them is within a of 2 r^i / (1 + r), whatever the distribution (DDSketch: Masson, Rim and Lee 2019, proposition 3).
Counts of two sketches add up to the sketch of both streams, exactly. Values below `LEAST` or above `MOST` count as
these, so that there are at most 1,497 buckets.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

ACCURACY = 0.01
LEAST, MOST = 1e-6, 1e7

_LOG_RATIO = math.log((1 + ACCURACY) / (1 - ACCURACY))


class Sketch:
    """Counts by bucket. To add is O(1), to merge and to ask O(buckets)."""

    __slots__ = ("_buckets", "count")

    def __init__(self, buckets: Iterable[tuple[int, int]] = ()) -> None:
        """`buckets`: what `state` gave."""
        self._buckets: Counter[int] = Counter(dict(buckets))
        self.count = self._buckets.total()

    def add(self, value: float) -> None:
        """Raises ValueError on what is not a number."""
        if math.isnan(value):
            raise ValueError("a sketch cannot count what is not a number")
        self._buckets[math.ceil(math.log(min(max(value, LEAST), MOST)) / _LOG_RATIO)] += 1
        self.count += 1

    def merge(self, other: "Sketch") -> None:
        self._buckets.update(other._buckets)
        self.count += other.count

    def take_away(self, other: "Sketch") -> None:
        """What was merged before."""
        for bucket, count in other._buckets.items():
            if left := self._buckets[bucket] - count:
                self._buckets[bucket] = left
            else:
                del self._buckets[bucket]
        self.count -= other.count

    def quantile(self, p: float) -> float:
        """The smallest value with a share of at least `p` at or below it. Raises ValueError of nothing."""
        if not self.count:
            raise ValueError("quantile of nothing")
        rank = max(1, math.ceil(p * self.count - 1e-9))
        buckets = sorted(self._buckets)
        below = list(accumulate(self._buckets[b] for b in buckets))
        bucket = buckets[min(bisect_left(below, rank), len(buckets) - 1)]
        return 2 * math.exp(bucket * _LOG_RATIO) / (1 + math.exp(_LOG_RATIO))

    def state(self) -> list[tuple[int, int]]:
        """What the constructor takes, for JSON."""
        return sorted(self._buckets.items())
