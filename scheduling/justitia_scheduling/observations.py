"""What a replica has seen of the objectives, and of the load: adds up over replicas, survives restarts.

For each objective there are two rings of cohorts (`cohorts.py`): a fine one that control looks at, whose slices are 5 s
or a tenth of the bound, and one over the objective's window. The clock is any that replicas and restarts have in
common. Requests that are still open count once they are older than the bound.

*Demand* is the engine time asked for, in engine seconds per second: arrivals a second, over the last minute, times the
mean engine time of the last finished requests. What never finishes is not in that mean: under starvation it is too low.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from justitia_scheduling.cohorts import Cohort, Cohorts
from justitia_scheduling.model import Seconds
from justitia_scheduling.objective import Objective

ObjectiveId = str
FINEST: Seconds = 5.0
SLICES = 60
ARRIVALS: Seconds = 60.0
SERVED = 500


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
        """Of what arrived before, everything is known."""
        return now - self.objective.bound if self.objective.metric.since_arrival else now

    def last(self, ring: Cohorts, slices: int, now: Seconds, since: Seconds = -math.inf) -> Cohort:
        """The last whole slices of which everything is known, no older than `since`."""
        end = math.floor(self.known_until(now) / ring.width)
        first = end - slices if since == -math.inf else max(end - slices, math.ceil(since / ring.width))
        total = ring.sum(first, end)
        for arrival in self.overdue:
            if first <= arrival // ring.width < end:
                total.add(now - arrival, good=False)
        return total


class Observations:
    """Of one replica; `merge` adds another's. To observe is O(1) for each objective."""

    def __init__(self, objectives: Mapping[ObjectiveId, Objective]) -> None:
        self.watched = {key: Watched(objective) for key, objective in objectives.items()}
        self._arrivals: deque[list[float]] = deque()
        self._served: deque[Seconds] = deque(maxlen=SERVED)
        self._served_elsewhere: list[Seconds] = []

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

    # What a host tells.

    def observe(self, key: ObjectiveId, value: Seconds, now: Seconds) -> None:
        """A value has become known. Raises KeyError of an objective that was not declared."""
        watched = self.watched[key]
        objective = watched.objective
        arrival = now - value if objective.metric.since_arrival else now
        for ring in (watched.recent, watched.budget):
            ring.advance(now)
            ring.add(arrival, value, value <= objective.bound)

    def still_open(self, key: ObjectiveId, ages: Sequence[Seconds], now: Seconds) -> None:
        """How long ago those arrived that have no value yet, in place of what was told before."""
        watched = self.watched[key]
        watched.overdue = [now - age for age in ages if age > watched.objective.bound]

    def arrived(self, now: Seconds) -> None:
        """A request of any application arrived, so the demand grows."""
        second = float(now // 1)
        if not self._arrivals or self._arrivals[-1][0] != second:
            self._arrivals.append([second, 0])
            while self._arrivals[0][0] <= second - ARRIVALS:
                self._arrivals.popleft()
        self._arrivals[-1][1] += 1

    def served(self, engine_time: Seconds) -> None:
        """A request finished that took so many engine seconds, its part of steps that it shared."""
        self._served.append(engine_time)

    def merge(self, other: "Observations") -> None:
        """Add another replica's, of the same objectives."""
        for key, theirs in other.watched.items():
            ours = self.watched[key]
            ours.recent.merge(theirs.recent)
            ours.budget.merge(theirs.budget)
            ours.overdue = ours.overdue + theirs.overdue
        self._arrivals = deque(sorted([*self._arrivals, *other._arrivals]))
        self._served_elsewhere += [*other._served, *other._served_elsewhere]

    # What is asked.

    def demand(self, now: Seconds) -> float | None:
        """Engine seconds asked for per second, over all replicas; None before anything has finished."""
        served = [*self._served, *self._served_elsewhere]
        if not served or not self._arrivals:
            return None
        start = max(now - ARRIVALS, self._arrivals[0][0])
        count = sum(n for second, n in self._arrivals if second >= start)
        return count / max(now - start, 1.0) * sum(served) / len(served)

    def state(self) -> dict[str, Any]:
        """For JSON; `restore` takes it: after a restart, or in another replica that merges it."""
        return {
            "watched": {
                key: {
                    "counts": _counts(w.objective),
                    "recent": w.recent.state(),
                    "budget": w.budget.state(),
                    "overdue": w.overdue,
                }
                for key, w in self.watched.items()
            },
            "arrivals": [list(each) for each in self._arrivals],
            "served": list(self._served),
        }

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
        self._arrivals = deque(list(each) for each in state["arrivals"])
        self._served.extend(state["served"])


def _counts(objective: Objective) -> list[object]:
    """What decides how a value is counted."""
    return [objective.metric.value, objective.bound, objective.window]


def _counted_alike(one: Objective, other: Objective) -> bool:
    return _counts(one) == _counts(other)
