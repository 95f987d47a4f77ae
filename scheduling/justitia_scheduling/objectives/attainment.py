"""How an objective stands, as site reliability engineers look at it: attainment, error budget, burn rates.

Over the objective's window, with n values of which m miss the bound, and a = 1 - percentile the share that may:

    attainment  1 - m / n
    budget      1 - m / (a n)           what is left of the allowed misses; below 0 the objective is missed
    burn        (m / n) / a             over a part of the window: 1 spends exactly the budget

An alert needs its burn over a long and over a short part of the window (Google's SRE Workbook, chapter 5: multiwindow,
multi-burn-rate alerts), so that it comes early and ends soon:

    fast   6   over 1/12 and 1/60 of the window     half of the budget spent in a twelfth of the window
    slow   1.5 over 1/2 and 1/12                    three quarters of it in half of the window

Replicas add up what they counted over each of `PARTS`, and then all follows.

The workbook's 14.4 over an hour of thirty days cannot be reached by a P90, whose burn is at most 10; windows here are
minutes to hours, so that the ratios of windows are smaller too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from justitia_scheduling.objectives.cohorts import Cohort
from justitia_scheduling.objectives.objective import allowed_share
from justitia_scheduling.objectives.observations import SLICES, Watched
from justitia_vocabulary.objectives import ObjectiveState
from justitia_vocabulary.units import Seconds

PARTS = (1.0, 1 / 2, 1 / 12, 1 / 60)
"""The parts of the window over which values are counted, as shares of it. Each ends now."""


@dataclass(frozen=True, slots=True)
class Alert:
    """`burn` over both parts of the window."""

    burn: float
    long: float
    short: float


FAST = Alert(6.0, 1 / 12, 1 / 60)
SLOW = Alert(1.5, 1 / 2, 1 / 12)


@dataclass(frozen=True, slots=True)
class Attainment:
    """Over `count` values; without any, everything is as if nothing were missed.

    `value` is the observed percentile in seconds, within 1 %; None without values, or where none were asked for.
    `unattainable`: it is missed, and no gamma that is allowed meets it; `opposed`: because another objective asks for
    the opposite.
    """

    count: int
    share: float
    value: Seconds | None
    budget: float
    fast_burn: float
    slow_burn: float
    alerted: bool
    unattainable: bool = False
    opposed: bool = False

    @property
    def state(self) -> ObjectiveState | None:
        """None before anything is known."""
        if self.unattainable:
            return ObjectiveState.UNATTAINABLE
        if not self.count:
            return None
        if self.budget < 0:
            return ObjectiveState.MISSED
        return ObjectiveState.AT_RISK if self.alerted else ObjectiveState.MET


def counted(watched: Watched, now: Seconds, *, values: bool = True) -> tuple[Cohort, ...]:
    """What is known now of each of `PARTS`, with the `values` of the whole window if they are asked for. O(slices)."""
    return tuple(watched.last(watched.budget, round(part * SLICES), now, values=values and part == 1) for part in PARTS)


def attainment(
    percentile: float, cohorts: Sequence[Cohort], *, unattainable: bool = False, opposed: bool = False
) -> Attainment:
    """The attainment by the cohorts that `counted` returns. `percentile` is a share; only the first has values."""
    over = dict(zip(PARTS, cohorts, strict=True))
    allowed = allowed_share(percentile)

    def burn(part: float) -> float:
        cohort = over[part]
        return cohort.missed / cohort.total / allowed if cohort.total else 0.0

    whole = over[1.0]
    return Attainment(
        count=whole.total,
        share=whole.good / whole.total if whole.total else 1.0,
        value=whole.values.quantile(percentile) if whole.values.count else None,
        budget=1 - whole.missed / (allowed * whole.total) if whole.total else 1.0,
        fast_burn=burn(FAST.long),
        slow_burn=burn(SLOW.long),
        alerted=any(min(burn(alert.long), burn(alert.short)) >= alert.burn for alert in (FAST, SLOW)),
        unattainable=unattainable,
        opposed=opposed,
    )
