"""Gamma: how fast the tail of completion times decays, estimated from requests that have finished.

With T the time from a request's arrival to its last token and t_p its p-th percentile, a line through the logarithm
of P[T > t] at t95 and t99 falls by (tail-aware scheduling, equation 9)

    gamma = (ln P[T > t95] - ln P[T > t99]) / (t99 - t95) = ln 5 / (t99 - t95)        unit: 1/s

(its Algorithm 1 has ln 99 - ln 95 in the place of ln 5, which is 39 times too small). Quantiles are those of the last
`WINDOW` finished requests; after each tenth of a window, gamma takes one step of an exponential moving average towards
the estimate. Gamma in effect is that average, clipped to bounds that a controller may move: the average goes on
adapting beyond them, so that the controller sees it. For M/M/1 under FCFS the formula gives mu - lambda.
"""

import math
from bisect import bisect_left, insort
from collections import deque

from justitia_vocabulary.policies import HIGHEST_GAMMA, LOWEST_GAMMA
from justitia_vocabulary.units import Seconds

GAMMA = 0.1
WINDOW = 1000
SMOOTHING = 0.3


def tail_slope(t95: Seconds, t99: Seconds) -> float:
    """Equation 9, in 1/s; infinite where the percentiles coincide."""
    return math.log(5) / (t99 - t95) if t99 > t95 else math.inf


class TailSlope:
    """Gamma and its bounds, in 1/s. It keeps one window; a finished request costs O(log window) comparisons."""

    def __init__(self, gamma: float = GAMMA, lowest: float = LOWEST_GAMMA, highest: float = HIGHEST_GAMMA) -> None:
        self._average = gamma
        self._recent: deque[Seconds] = deque()
        self._sorted: list[Seconds] = []
        self._unused = 0
        self.bound(lowest, highest)

    @property
    def gamma(self) -> float:
        """Gamma in effect, in 1/s: the estimate clipped to the bounds."""
        return min(max(self._average, self._lowest), self._highest)

    @property
    def estimate(self) -> float:
        """The moving average of equation 9, in 1/s, whatever the bounds."""
        return self._average

    def bound(self, lowest: float, highest: float) -> None:
        """Keep gamma in [lowest, highest] from this moment on; equal bounds fix it. Raises ValueError."""
        if not 0 < lowest <= highest < math.inf:
            raise ValueError(f"bounds of gamma are {lowest} and {highest}: need 0 < lowest <= highest, finite")
        self._lowest, self._highest = lowest, highest

    def observe(self, completion_time: Seconds) -> None:
        """A request has finished that long after its arrival."""
        self._recent.append(completion_time)
        insort(self._sorted, completion_time)
        if len(self._recent) > WINDOW:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
        self._unused += 1
        if self._unused == WINDOW // 10:
            self._unused = 0
            slope = tail_slope(self._quantile(0.95), self._quantile(0.99))
            estimate = min(max(slope, LOWEST_GAMMA), HIGHEST_GAMMA)
            self._average += SMOOTHING * (estimate - self._average)

    def _quantile(self, p: float) -> Seconds:
        """The smallest observed t with P[T <= t] >= p."""
        return self._sorted[math.ceil(p * len(self._sorted)) - 1]
