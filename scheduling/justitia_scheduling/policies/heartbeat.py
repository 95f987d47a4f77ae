"""Which waiting members have had no admission for too long.

The members are tenants, or the applications of tenants. A member waits while one of its requests does. Its *silence*
begins when it begins to wait and with each admission that it has while it waits on. A member whose
silence has lasted for the interval H is *overdue* until its next admission.
"""

from collections import OrderedDict
from typing import Generic

from justitia_scheduling.core.counters import Member
from justitia_vocabulary.units import Seconds

Rank = tuple[int, Seconds]
"""(0, since when its silence lasts) of an overdue member, which goes before all others; (1, 0) of another one."""

IN_TIME: Rank = (1, 0.0)


class Heartbeat(Generic[Member]):
    """The silences of waiting members. O(1) for each change. `interval` is H; who is overdue stays so if it changes."""

    def __init__(self, interval: Seconds) -> None:
        self.interval = interval
        self._silent: OrderedDict[Member, Seconds] = OrderedDict()
        """Members that are not overdue, in the order in which their silences began."""
        self._overdue: dict[Member, Seconds] = {}

    def silent_since(self, member: Member, now: Seconds) -> None:
        """It begins to wait, or had an admission and waits on."""
        self._silent[member] = now
        self._silent.move_to_end(member)
        self._overdue.pop(member, None)

    def drop(self, member: Member) -> None:
        """It does not wait any longer."""
        self._silent.pop(member, None)
        self._overdue.pop(member, None)

    def late(self, now: Seconds) -> list[Member]:
        """The members that have become overdue since this was last asked."""
        late: list[Member] = []
        while self._silent:
            member, since = next(iter(self._silent.items()))
            if now - since < self.interval:
                break
            del self._silent[member]
            self._overdue[member] = since
            late.append(member)
        return late

    def rank(self, member: Member) -> Rank:
        since = self._overdue.get(member)
        return IN_TIME if since is None else (0, since)
