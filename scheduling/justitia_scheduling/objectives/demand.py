"""How much engine time is asked for: engine seconds per second, by what arrives and what such requests took before.

For each application: arrivals a second over the last minute, times the mean engine time of its last finished requests;
one that has finished none counts with the mean of all. By application, because under overload gamma starves one kind of
request and finishes another: the mean over all would tell of the kind that finishes.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from justitia_vocabulary.units import Seconds

ARRIVALS: Seconds = 60.0
SERVED = 200


class Demand:
    """What is asked of one replica; `merge` adds another's. O(1) for each event. Arrivals are [second, count]."""

    def __init__(self) -> None:
        self._arrivals: dict[str, deque[list[int]]] = {}
        self._served: dict[str, list[Seconds]] = {}

    def arrived(self, application: str, now: Seconds) -> None:
        second = int(now // 1)
        arrivals = self._arrivals.setdefault(application, deque())
        if not arrivals or arrivals[-1][0] != second:
            arrivals.append([second, 0])
            while arrivals[0][0] <= second - ARRIVALS:
                arrivals.popleft()
        arrivals[-1][1] += 1

    def served(self, application: str, engine_time: Seconds) -> None:
        served = self._served.setdefault(application, [])
        served.append(engine_time)
        if len(served) >= 2 * SERVED:
            del served[:SERVED]

    def keep(self, applications: Iterable[str]) -> None:
        """Forget all others."""
        kept = set(applications)
        self._arrivals = {a: each for a, each in self._arrivals.items() if a in kept}
        self._served = {a: each for a, each in self._served.items() if a in kept}

    def merge(self, other: "Demand") -> None:
        for application, theirs in other._arrivals.items():
            ours = self._arrivals.get(application, deque())
            self._arrivals[application] = deque(sorted([*map(list, ours), *map(list, theirs)]))
        for application, served in other._served.items():
            self._served[application] = [*self._served.get(application, []), *served]

    def rate(self, now: Seconds) -> float | None:
        """Engine seconds per second; None before anything has finished."""
        everything = [seconds for served in self._served.values() for seconds in served]
        first = min((a[0][0] for a in self._arrivals.values() if a), default=now)
        start = max(now - ARRIVALS, first)
        if not everything or now <= start:
            return None
        asked = 0.0
        for application, arrivals in self._arrivals.items():
            served = self._served.get(application) or everything
            asked += sum(n for second, n in arrivals if second >= start) * sum(served) / len(served)
        return asked / (now - start)

    def state(self) -> dict[str, Any]:
        """For JSON; `restore` takes it."""
        return {"arrivals": {a: list(map(list, each)) for a, each in self._arrivals.items()}, "served": self._served}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._arrivals = {a: deque(map(list, each)) for a, each in state["arrivals"].items()}
        self._served = {a: list(each) for a, each in state["served"].items()}
