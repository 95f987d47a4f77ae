"""Refusals come at a pace: who is refused again and again waits for the next refusal.

A refusal costs the loop of requests about 0.1 ms, so clients that send again at once, whatever `Retry-After` says,
could take all of it. Of one tenant (or of one address, where no key is known) the first refusals are immediate. Beyond
them each waits until there have been no more than so many a second, `LONGEST` at most. Meanwhile its connection is
taken, and connections are bounded (`connections.py`). Nothing that is served is ever delayed.
"""

from collections import OrderedDict
from collections.abc import Hashable

from justitia_vocabulary.units import Seconds

LONGEST: Seconds = 5.0
MOST_KNOWN = 10_000
"""Tenants or addresses. Who was refused longest ago is forgotten first."""


class Pace:
    """`immediate` refusals at a time, then `a_second`. A look takes constant time."""

    def __init__(self, a_second: float, immediate: int) -> None:
        self._between = 1 / a_second
        self._ahead = immediate / a_second
        self._due: OrderedDict[Hashable, Seconds] = OrderedDict()

    def delay(self, who: Hashable, now: Seconds) -> Seconds:
        """How long the refusal that is ready now is to wait."""
        due = max(self._due.pop(who, now), now) + self._between
        self._due[who] = min(due, now + self._ahead + LONGEST)
        if len(self._due) > MOST_KNOWN:
            self._due.popitem(last=False)
        return max(0.0, self._due[who] - now - self._ahead)
