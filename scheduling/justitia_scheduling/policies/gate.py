"""Which members may be served, and the first of them: the gate of tiered Justitia (`tiered.py` derives it).

The members are tenants, or the applications of one tenant. Every waiting member g has a counter c_g (service per
weight), the key of its first run and a slack s_g. With B the burst, member f may be served iff

    c_f <= limit = min over waiting g of (c_g + min(B, s_g)) = min(min c_g + B, min (c_g + s_g))

and among those the smallest key goes first. Both minima and the choice are kept in lazy heaps that are put right as
their tops are looked at. Counters only grow, so what was put may be too small and never too large; a member whose
counter has passed the limit moves from the open to the held ones when it comes to the top, and back when the limit has
passed it. So an answer costs O(log members) for each member that was charged or changed since the last one, and O(1)
if nothing has changed. Where no counter can be small enough for the burst to decide the limit, the smallest counter is
not looked for.
"""

from dataclasses import dataclass
from typing import Generic

from justitia_scheduling.core.counters import Counters, Member
from justitia_scheduling.core.lazyheap import LazyHeap

Place = tuple[float, ...]
"""The place of a member's first run in the order: the smallest goes first, and no two are equal."""


@dataclass(slots=True, eq=False)
class _First(Generic[Member]):
    """A waiting member's first run. `held` says whether it is among the held ones or the open ones."""

    member: Member
    key: Place
    slack: float
    held: bool

    def __lt__(self, other: "_First[Member]") -> bool:
        """Any answer will do: of equal counters or bounds either may come first, and no two keys are equal."""
        return False


class Gate(Generic[Member]):
    """The waiting members with their counters and first runs."""

    def __init__(self) -> None:
        self.counters: Counters[Member] = Counters()
        self._first: dict[Member, _First[Member]] = {}
        self._bounds: LazyHeap[_First[Member]] = LazyHeap()
        self._open: LazyHeap[_First[Member]] = LazyHeap()
        self._held: LazyHeap[_First[Member]] = LazyHeap()
        self._latest_limit = 0.0
        self._changes = 0
        self._answered: tuple[int, int, float] | None = None
        self._answer: Member | None = None

    def key(self, member: Member) -> Place | None:
        """Key of the member's first run, None if none of its requests waits."""
        first = self._first.get(member)
        return None if first is None else first.key

    def put_first(self, member: Member, key: Place, slack: float) -> None:
        """The member's first run, or its key, has changed."""
        self.drop(member)
        self._changes += 1
        counter = self.counters[member]
        first = self._first[member] = _First(member, key, slack, counter > self._latest_limit)
        self._bounds.put(first, (counter + slack,))
        if first.held:
            self._held.put(first, (counter,))
        else:
            self._open.put(first, key)

    def drop(self, member: Member) -> None:
        """Nothing of the member waits."""
        if (first := self._first.pop(member, None)) is not None:
            self._changes += 1
            self._bounds.remove(first)
            (self._held if first.held else self._open).remove(first)

    def limit(self, burst: float) -> float:
        """The largest counter with which a waiting member may be served; 0 if none waits."""
        counter, bounds = self.counters.by_member, self._bounds
        bound: float
        while (top := bounds.top()) is not None:
            bound, first = top
            grown = counter[first.member] + first.slack
            if bound < grown:
                bounds.raise_top((grown,))
            elif bound <= self.counters.at_least + burst:
                return bound
            else:
                least = self.counters.smallest()
                return bound if least is None else min(counter[least] + burst, bound)
        return 0.0

    def best(self, burst: float) -> Member | None:
        """The member to serve, None if none waits."""
        asked = (self.counters.changes, self._changes, burst)
        if asked != self._answered:
            self._answered, self._answer = asked, self._best(burst)
        return self._answer

    def _best(self, burst: float) -> Member | None:
        limit = self._latest_limit = self.limit(burst)
        least_held = self._held.least()
        if least_held is not None and least_held[0] <= limit:
            self._release(limit)
        counter, waiting = self.counters.by_member, self._open
        while (first := waiting.first()) is not None:
            if counter[first.member] <= limit:
                return first.member
            waiting.remove(first)
            first.held = True
            self._held.put(first, (counter[first.member],))
        return None

    def _release(self, limit: float) -> None:
        """Open the gate for held members that the limit has passed."""
        counter, held = self.counters.by_member, self._held
        first: _First[Member]
        while (top := held.top()) is not None and top[0] <= limit:
            seen, first = top
            if seen < counter[first.member]:
                held.raise_top((counter[first.member],))
            else:
                held.remove(first)
                first.held = False
                self._open.put(first, first.key)
