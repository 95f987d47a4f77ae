"""Adds up what replicas counted of an objective, as if there were one replica. Pure, over plain data.

Each replica tells how many values it saw over each of `PARTS` of the window, how many of them missed the bound, and
the buckets of the values of the whole window. Counts and buckets add up; shares, percentiles and states do not, so
they follow from the sums. A state that one replica alone can know adds up too: what no gamma that is allowed holds in
one of them is Unattainable.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from justitia_scheduling.objectives.attainment import PARTS, Attainment, attainment
from justitia_scheduling.objectives.cohorts import Cohort
from justitia_scheduling.objectives.sketch import Sketch


class Part(Protocol):
    """Values in a part of the window."""

    @property
    def total(self) -> int: ...

    @property
    def missed(self) -> int: ...


class Counts(Protocol):
    """What one replica tells: `counted` is over each of `PARTS`, `values` are buckets of a `Sketch`."""

    @property
    def counted(self) -> Sequence[Part]: ...

    @property
    def values(self) -> Iterable[tuple[int, int]]: ...

    @property
    def unattainable(self) -> bool: ...

    @property
    def opposed(self) -> bool: ...


def tally(percentile: float, told: Iterable[Counts]) -> Attainment:
    """The sum of what adds up. `percentile` is a share."""
    cohorts, unattainable, opposed = [Cohort() for _ in PARTS], False, False
    for each in told:
        for cohort, part in zip(cohorts, each.counted, strict=True):
            cohort.count(Cohort(part.total, part.total - part.missed))
        cohorts[0].values.merge(Sketch(each.values))
        unattainable |= each.unattainable
        opposed |= each.unattainable and each.opposed
    return attainment(percentile, cohorts, unattainable=unattainable, opposed=opposed)


def adds_up(told: Counts) -> bool:
    """Whether it was counted over the same parts of the window: another release's need not be."""
    return len(told.counted) == len(PARTS)
