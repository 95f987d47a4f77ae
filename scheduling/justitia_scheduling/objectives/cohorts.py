"""What became of the requests that arrived in each slice of time, over a sliding window.

Values are counted where their request arrived, not when they became known. So what arrived before `now - bound` is
known altogether: within the bound, beyond it, or still open and thereby beyond it. Counting by the moment of knowledge
would leave out the requests that wait longest until they end, just when it matters.

Slices are [i * width, (i + 1) * width) of the clock that everybody uses, so those of several replicas add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from justitia_scheduling.objectives.sketch import Sketch
from justitia_vocabulary.units import Seconds


@dataclass(slots=True)
class Cohort:
    """How many values there are, and how many of them are within the bound."""

    total: int = 0
    good: int = 0
    values: Sketch = field(default_factory=Sketch)

    @property
    def missed(self) -> int:
        return self.total - self.good

    def add(self, value: Seconds, good: bool) -> None:
        self.total += 1
        self.good += good
        self.values.add(value)

    def merge(self, other: "Cohort") -> None:
        self.count(other)
        self.values.merge(other.values)

    def count(self, other: "Cohort") -> None:
        """Without its values."""
        self.total += other.total
        self.good += other.good

    def take_away(self, other: "Cohort") -> None:
        """What was merged before."""
        self.total -= other.total
        self.good -= other.good
        self.values.take_away(other.values)


class Cohorts:
    """The last `slices` slices of `width` seconds. To add is O(1), amortised; to sum O(slices), and little where almost
    all are asked for.
    """

    def __init__(self, width: Seconds, slices: int) -> None:
        self.width, self.slices = width, slices
        self._cohorts: dict[int, Cohort] = {}
        self._all = Cohort()
        self._newest: int | None = None

    def add(self, arrival: Seconds, value: Seconds, good: bool) -> None:
        """What arrived before the window is not counted."""
        cohort = self._at(int(arrival // self.width))
        if cohort is not None:
            cohort.add(value, good)
            self._all.add(value, good)

    def advance(self, now: Seconds) -> None:
        """Forget what the window has left, and everything if the clock was set back by more than it."""
        index = int(now // self.width)
        if self._newest is not None and index < self._newest - self.slices:
            self._cohorts.clear()
            self._all = Cohort()
        elif self._newest is not None and index <= self._newest:
            return
        self._newest = index
        for old in [i for i in self._cohorts if i <= index - self.slices]:
            self._all.take_away(self._cohorts.pop(old))

    def sum(self, first: int, end: int, *, values: bool = True) -> Cohort:
        """The sum of slices `first` to `end` - 1. Without `values` it has counts alone, for a tenth of the work."""
        total = Cohort()
        inside = {index for index in self._cohorts if first <= index < end}
        if values and len(inside) > len(self._cohorts) / 2:
            total.merge(self._all)
            for index in self._cohorts.keys() - inside:
                total.take_away(self._cohorts[index])
            return total
        add = total.merge if values else total.count
        for index in inside:
            add(self._cohorts[index])
        return total

    def merge(self, other: "Cohorts") -> None:
        """Add another replica's. Raises ValueError where slices differ."""
        if (self.width, self.slices) != (other.width, other.slices):
            raise ValueError(f"slices of {self.width} s and of {other.width} s do not add up")
        for index, theirs in other._cohorts.items():
            self._merge(index, theirs)

    def state(self) -> list[Any]:
        """For JSON; `restore` takes it."""
        return [[i, c.total, c.good, c.values.state()] for i, c in sorted(self._cohorts.items())]

    def restore(self, state: Sequence[Any]) -> None:
        for index, total, good, values in state:
            self._merge(index, Cohort(total, good, Sketch(values)))

    def _merge(self, index: int, more: Cohort) -> None:
        if (cohort := self._at(index)) is not None:
            cohort.merge(more)
            self._all.merge(more)

    def _at(self, index: int) -> Cohort | None:
        """None if the window has left it."""
        if self._newest is None or index > self._newest:
            self.advance(index * self.width)
        assert self._newest is not None
        if index <= self._newest - self.slices:
            return None
        return self._cohorts.setdefault(index, Cohort())
