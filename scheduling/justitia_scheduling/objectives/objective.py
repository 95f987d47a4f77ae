"""Service level objectives: what an application asks of its pool, and which way gamma moves for it.

"99 % of first tokens within .8 s, over an hour" is `Objective(TIME_TO_FIRST_TOKEN, 0.99, 0.8, 3600)`. Small gamma
lets short work pass and is good for first tokens and for completion up to P90; large gamma is first come, first served
and is good for the farthest tail. In between, and for the pace of decoding, the sign depends on the lengths: it is
measured (`dither.py`). See `docs/design/slo.md`.
"""

import math
from dataclasses import dataclass
from enum import Enum

from justitia_vocabulary.objectives import MetricName
from justitia_vocabulary.units import Seconds

MIDDLE = (0.90, 0.99)
"""Between these percentiles the sign of completion times is unknown."""


class Direction(Enum):
    """Which way gamma moves for an objective that is missed; the value is the sign of the move of log gamma."""

    DOWN = -1
    UP = 1
    MEASURED = 0


def allowed_share(percentile: float) -> float:
    """The share of values that may miss the bound of that percentile: exactly .1 for .9."""
    return round(1 - percentile, 12)


@dataclass(frozen=True, slots=True)
class Objective:
    """At least `percentile` (a share, .99 for P99) of the values of `window` seconds are at most `bound`.

    `weight` is the tier's: of two objectives that pull gamma apart, twice the weight gives way half as far. Raises
    ValueError.
    """

    metric: MetricName
    percentile: float
    bound: Seconds
    window: Seconds
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 1:
            raise ValueError(f"percentile is {self.percentile}: it must be a share between 0 and 1")
        for name in ("bound", "window", "weight"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be positive and finite")

    @property
    def allowed(self) -> float:
        """The share that may miss the bound."""
        return allowed_share(self.percentile)

    @property
    def direction(self) -> Direction:
        match self.metric:
            case MetricName.TIME_TO_FIRST_TOKEN:
                return Direction.DOWN
            case MetricName.TIME_PER_OUTPUT_TOKEN:
                return Direction.MEASURED
            case MetricName.REQUEST_COMPLETION | MetricName.RUN_COMPLETION:
                least, most = MIDDLE
                if self.percentile <= least:
                    return Direction.DOWN
                return Direction.UP if self.percentile >= most else Direction.MEASURED
