"""How often the operator removes what others add to one object. Without a limit, it and whoever adds the fields again
would write for ever, and if it is a pod template, engines would restart for ever.
"""

from datetime import datetime, timedelta

from justitia_operator.world.objects import Ref

MOST_REMOVALS = 3
WINDOW = timedelta(hours=1)


class Contests:
    """Counts removals. Allows at most :data:`MOST_REMOVALS` from one object in any :data:`WINDOW`."""

    def __init__(self) -> None:
        self._removals: dict[Ref, list[datetime]] = {}

    def may_remove(self, ref: Ref, now: datetime) -> bool:
        return len(self._recent(ref, now)) < MOST_REMOVALS

    def removed(self, ref: Ref, now: datetime) -> None:
        self._removals[ref] = [*self._recent(ref, now), now]
        for other in [other for other in self._removals if not self._recent(other, now)]:
            del self._removals[other]

    def _recent(self, ref: Ref, now: datetime) -> list[datetime]:
        return [at for at in self._removals.get(ref, ()) if now - at < WINDOW]
