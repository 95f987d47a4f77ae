"""How often what others add to one object is taken out again: somebody who puts it back each time would have the two
write for ever, and where it is a pod template, have engines come and go for ever.
"""

from collections import defaultdict
from datetime import datetime, timedelta

from justitia_operator.world.objects import Ref

MOST_REMOVALS = 3
WINDOW = timedelta(hours=1)


class Contests:
    """Told the time. At most :data:`MOST_REMOVALS` from one object in any :data:`WINDOW`."""

    def __init__(self) -> None:
        self._removals: defaultdict[Ref, list[datetime]] = defaultdict(list)

    def may_remove(self, ref: Ref, now: datetime) -> bool:
        return len(self._recent(ref, now)) < MOST_REMOVALS

    def removed(self, ref: Ref, now: datetime) -> None:
        self._removals[ref] = [*self._recent(ref, now), now]
        for other in [other for other in self._removals if not self._recent(other, now)]:
            del self._removals[other]

    def _recent(self, ref: Ref, now: datetime) -> list[datetime]:
        return [at for at in self._removals.get(ref, ()) if now - at < WINDOW]
