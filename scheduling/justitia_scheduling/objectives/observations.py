"""What a replica has seen of the objectives, and of the load: adds up over replicas, survives restarts.

For each objective there are two rings of cohorts (`cohorts.py`): a fine one that control looks at, whose slices are 5 s
or a tenth of the bound, and one over the objective's window. The clock is any that replicas and restarts have in
common. Requests that are still open count once they are older than the bound.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from justitia_scheduling.objectives.cohorts import Cohort, Cohorts
from justitia_scheduling.objectives.demand import Demand
from justitia_scheduling.objectives.objective import Objective
from justitia_vocabulary.units import Seconds

ObjectiveId = str
FINEST: Seconds = 5.0
SLICES = 60


@dataclass(slots=True)
class Watched:
    """One objective's values. `overdue`: when those arrived that are still open and older than the bound."""

    objective: Objective
    recent: Cohorts = field(init=False)
    budget: Cohorts = field(init=False)
    overdue: list[Seconds] = field(default_factory=list)

    def __post_init__(self) -> None:
        bound, width = self.objective.bound, self.objective.window / SLICES
        self.recent = Cohorts(max(FINEST, bound / 10), SLICES)
        self.budget = Cohorts(width, SLICES + math.ceil(bound / width) + 1)

    def known_until(self, now: Seconds) -> Seconds:
        """The moment up to which the outcome of every arrival is known."""
        return now - self.objective.bound if self.objective.metric.since_arrival else now

    def state(self) -> dict[str, Any]:
        """For JSON."""
        counts, rings = _counts(self.objective), {"recent": self.recent.state(), "budget": self.budget.state()}
        return {"counts": counts, **rings, "overdue": self.overdue}

    def last(
        self, ring: Cohorts, slices: int, now: Seconds, since: Seconds = -math.inf, *, values: bool = True
    ) -> Cohort:
        """The last whole slices of which everything is known, no older than `since`; counts alone without `values`."""
        end = math.floor(self.known_until(now) / ring.width)
        first = end - slices if since == -math.inf else max(end - slices, math.ceil(since / ring.width))
        total = ring.sum(first, end, values=values)
        for arrival in self.overdue:
            if first <= arrival // ring.width < end:
                total.add(now - arrival, good=False)
        return total


class Observations:
    """What one replica has seen; `merge` adds another's. A value costs O(1). The host tells the load to `demand`."""

    def __init__(self, objectives: Mapping[ObjectiveId, Objective]) -> None:
        self.watched = {key: Watched(objective) for key, objective in objectives.items()}
        self.demand = Demand()

    def declare(self, objectives: Mapping[ObjectiveId, Objective]) -> None:
        """These are the objectives from now on. One whose bound, window or metric changed is counted anew."""
        before = self.watched
        self.watched = {}
        for key, objective in objectives.items():
            known = before.get(key)
            if known is not None and _counted_alike(known.objective, objective):
                known.objective = objective
                self.watched[key] = known
            else:
                self.watched[key] = Watched(objective)

    def observe(self, key: ObjectiveId, value: Seconds, now: Seconds) -> None:
        """A value has become known. Raises KeyError of an objective that was not declared."""
        watched = self.watched[key]
        objective = watched.objective
        arrival = now - value if objective.metric.since_arrival else now
        for ring in (watched.recent, watched.budget):
            ring.advance(now)
            ring.add(arrival, value, value <= objective.bound)

    def refused(self, key: ObjectiveId, expected: Seconds, now: Seconds) -> None:
        """A request that arrives now is refused, because its value would have been beyond the bound: a miss."""
        watched = self.watched[key]
        for ring in (watched.recent, watched.budget):
            ring.advance(now)
            ring.add(now, expected, good=False)

    def still_open(self, key: ObjectiveId, ages: Sequence[Seconds], now: Seconds) -> None:
        """How long ago those arrived that have no value yet, in place of what was told before."""
        watched = self.watched[key]
        watched.overdue = [now - age for age in ages if age > watched.objective.bound]

    def merge(self, other: "Observations") -> None:
        """Add another replica's, of the same objectives."""
        for key, theirs in other.watched.items():
            ours = self.watched[key]
            ours.recent.merge(theirs.recent)
            ours.budget.merge(theirs.budget)
            ours.overdue = ours.overdue + theirs.overdue
        self.demand.merge(other.demand)

    def state(self) -> dict[str, Any]:
        """For JSON; `restore` takes it: after a restart, or in another replica that merges it."""
        return {"watched": {key: w.state() for key, w in self.watched.items()}, "demand": self.demand.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there. Objectives that were not declared, or counted otherwise, are passed over. What was open is
        so until `still_open` tells otherwise.
        """
        for key, saved in state["watched"].items():
            watched = self.watched.get(key)
            if watched is not None and _counts(watched.objective) == list(saved["counts"]):
                watched.recent.restore(saved["recent"])
                watched.budget.restore(saved["budget"])
                watched.overdue = list(saved["overdue"])
        self.demand.restore(state["demand"])


def _counts(objective: Objective) -> list[object]:
    """What decides how a value is counted."""
    return [objective.metric.value, objective.bound, objective.window]


def _counted_alike(one: Objective, other: Objective) -> bool:
    return _counts(one) == _counts(other)
