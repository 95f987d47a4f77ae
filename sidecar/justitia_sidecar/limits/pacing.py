"""Paces refusals: a tenant that is refused again and again waits for each refusal.

A refusal costs the loop of requests about 0.1 ms, so clients that send again at once, whatever `Retry-After` says,
could use up all of its time. The first refusals of a tenant, or of an address without a valid key, are immediate. Each
further one waits until there have been no more than so many a second, but `LONGEST` at most. Meanwhile it occupies its
connection, and connections are bounded (`connections.py`). Requests that are served are never delayed.
"""

from collections import OrderedDict
from collections.abc import Hashable

from justitia_vocabulary.units import Seconds

LONGEST: Seconds = 5.0
MOST_KNOWN = 10_000
"""The most tenants or addresses that are remembered. The one that was refused longest ago is forgotten first."""


class Pace:
    """A pace of `immediate` refusals at once, then `a_second`. A look takes constant time."""

    def __init__(self, a_second: float, immediate: int) -> None:
        self._between = 1 / a_second
        self._ahead = immediate / a_second
        self._due: OrderedDict[Hashable, Seconds] = OrderedDict()

    def delay(self, who: Hashable, now: Seconds) -> Seconds:
        """How long the refusal that is ready now has to wait."""
        due = max(self._due.pop(who, now), now) + self._between
        self._due[who] = min(due, now + self._ahead + LONGEST)
        if len(self._due) > MOST_KNOWN:
            self._due.popitem(last=False)
        return max(0.0, self._due[who] - now - self._ahead)
