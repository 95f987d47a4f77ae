"""Virtual token counters: how much of its weight's worth each member has been served (VTC, Algorithm 2).

The members are tenants, or the applications of one tenant. A member's counter is `c = service / weight`, in the pool's
cost model. Serving the waiting member with the smallest counter shares the engine by weight. A member that comes back
after an absence is *lifted*, so that it cannot claim what it did not ask for while it was away:

- to the smallest counter of the members that wait, where any does;
- else to the counter of the last member that left the queue;

and never lowered by it. "Comes back" means that none of its requests was waiting; running ones do not count.
Without lift (least counter first) a member keeps what it did not use.

What rounding takes from a counter is kept beside it and added with the next charge. Otherwise a member of large weight
would be charged too much or nothing once its counter is large: it is lifted to those of members of small weight.

The smallest is found in a lazy heap, where a charge leaves a member's place as it is until it comes to the top; a
refund, which makes the counter fall, puts the member there again. So it costs O(log members) for each member charged
since, and for each refund.
"""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from justitia_scheduling.core.lazyheap import LazyHeap

Member = TypeVar("Member", bound=Hashable)
"""A tenant, or an application of one tenant."""


class Counters(Generic[Member]):
    """Normalised service of every member seen, and which of them wait. `changes` counts the changes to either."""

    def __init__(self, *, lift: bool = True) -> None:
        self.changes = 0
        self._lifts = lift
        self._counter: dict[Member, float] = {}
        self._rounded_off: dict[Member, float] = {}
        self._seen: dict[Member, int] = {}
        self._waiting: dict[Member, int] = {}
        self._last_left: Member | None = None
        self._places: LazyHeap[Member] = LazyHeap()
        """The places of the waiting members. A recorded place may be smaller than the true one, never larger."""

    def __getitem__(self, member: Member) -> float:
        return self._counter.get(member, 0.0)

    @property
    def by_member(self) -> Mapping[Member, float]:
        """The counters of all members seen."""
        return self._counter

    @property
    def waiting(self) -> list[Member]:
        """Members with at least one waiting request."""
        return list(self._waiting)

    def enqueue(self, member: Member) -> None:
        """One more request of the member waits."""
        if member not in self._waiting:
            self._seen.setdefault(member, len(self._seen))
            self._counter.setdefault(member, 0.0)
            if self._lifts:
                self._lift(member)
            self._places.put(member, self.place(member))
        self._waiting[member] = self._waiting.get(member, 0) + 1
        self.changes += 1

    def dequeue(self, member: Member) -> None:
        """One request of the member left the queue, admitted or aborted."""
        self.changes += 1
        self._waiting[member] -= 1
        if not self._waiting[member]:
            del self._waiting[member]
            self._places.remove(member)
            self._last_left = member

    def charge(self, member: Member, charge: float, weight: float) -> None:
        """Raise the counter; a negative charge is a refund and lowers it."""
        self.changes += 1
        before, growth = self._counter.get(member, 0.0), charge / weight + self._rounded_off.get(member, 0.0)
        counter = self._counter[member] = before + growth
        # The error of this sum, without any of its own (Knuth, The Art of Computer Programming 2, theorem 4.2.2 B).
        grown = counter - before
        self._rounded_off[member] = (before - (counter - grown)) + (growth - grown)
        if charge < 0 and member in self._waiting:
            self._places.put(member, (counter, self._seen[member]))

    @property
    def at_least(self) -> float:
        """A lower bound of the waiting members' counters, 0 if none waits. O(1), unlike the smallest itself."""
        least = self._places.least()
        return 0.0 if least is None else least[0]

    def smallest(self) -> Member | None:
        """The waiting member with the smallest counter, the first seen among equals; None if none waits."""
        return self._places.first_grown(self._counter)

    def place(self, member: Member) -> tuple[float, int]:
        """Its counter, and its number in the order in which members were first seen. No two members' are equal."""
        return self._counter[member], self._seen[member]

    def in_order(self) -> list[Member]:
        """Waiting members, smallest counter first, the first seen among equals."""
        return sorted(self._waiting, key=self.place)

    def _lift(self, member: Member) -> None:
        smallest = self.smallest()
        level = self._last_left if smallest is None else smallest
        if level is not None and self._counter[level] > self._counter[member]:
            self._counter[member] = self._counter[level]
            self._rounded_off.pop(member, None)
