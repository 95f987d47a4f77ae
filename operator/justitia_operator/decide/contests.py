"""How often the operator removes what others add to one object. Without a limit, it and whoever adds the fields again
would write for ever, and if it is a pod template, engines would restart for ever.
"""

from datetime import datetime, timedelta

from justitia_operator.decide.ownership import Addition
from justitia_operator.world.objects import MANAGER, Ref

MOST_REMOVALS = 3
WINDOW = timedelta(hours=1)


class Contests:
    """Counts removals. Allows at most :data:`MOST_REMOVALS` from one object in any :data:`WINDOW`.

    It knows who added what is being removed: that is made ours first, and the object may change before it is gone.
    """

    def __init__(self) -> None:
        self._removals: dict[Ref, list[datetime]] = {}
        self._added: dict[Ref, tuple[datetime, tuple[Addition, ...]]] = {}

    def removing(self, ref: Ref, found: tuple[Addition, ...], now: datetime) -> tuple[Addition, ...]:
        """Fields that somebody added are found, and are going to be removed. Returns them with who added each."""
        for other in [other for other, (at, _) in self._added.items() if now - at >= WINDOW]:
            del self._added[other]
        _, known = self._added.get(ref, (now, ()))
        before = {each.path: each for each in known}
        found = tuple(before.get(each.path, each) if each.manager == MANAGER else each for each in found)
        self._added[ref] = now, found
        return found

    def may_remove(self, ref: Ref, now: datetime) -> bool:
        return len(self._recent(ref, now)) < MOST_REMOVALS

    def removed(self, ref: Ref, now: datetime) -> None:
        self._added.pop(ref, None)
        self._removals[ref] = [*self._recent(ref, now), now]
        for other in [other for other in self._removals if not self._recent(other, now)]:
            del self._removals[other]

    def _recent(self, ref: Ref, now: datetime) -> list[datetime]:
        return [at for at in self._removals.get(ref, ()) if now - at < WINDOW]
