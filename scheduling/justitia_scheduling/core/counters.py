"""Virtual token counters: how much of its weight's worth each tenant has been served (VTC, Algorithm 2).

A tenant's counter is `c = service / weight`, in the pool's cost model. Serving the waiting tenant with the
smallest counter shares the engine by weight. A tenant that comes back after an absence is *lifted*, so that it
cannot claim what it did not ask for while it was away:

- to the smallest counter of the tenants that wait, where any does;
- else to the counter of the last tenant that left the queue;

and never lowered by it. "Comes back" means that none of its requests was waiting; running ones do not count.
Without lift (least counter first) a tenant keeps what it did not use.

What rounding takes from a counter is kept beside it and added with the next charge. Otherwise a tenant of large weight
would be charged too much or nothing once its counter is large: it is lifted to those of tenants of small weight.

The smallest is found in a lazy heap, where a charge leaves a tenant's place as it is until it comes to the top; a
refund, which makes the counter fall, puts the tenant there again. So it costs O(log tenants) for each tenant charged
since, and for each refund.
"""

from collections.abc import Mapping

from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_vocabulary.units import TenantId


class TenantCounters:
    """Normalised service of every tenant seen, and which of them wait. `changes` counts the changes to either."""

    def __init__(self, *, lift: bool = True) -> None:
        self.changes = 0
        self._lifts = lift
        self._counter: dict[TenantId, float] = {}
        self._rounded_off: dict[TenantId, float] = {}
        self._seen: dict[TenantId, int] = {}
        self._waiting: dict[TenantId, int] = {}
        self._last_left: TenantId | None = None
        self._places: LazyHeap[TenantId] = LazyHeap()
        """The places of the waiting tenants. A recorded place may be smaller than the true one, never larger."""

    def __getitem__(self, tenant: TenantId) -> float:
        return self._counter.get(tenant, 0.0)

    @property
    def by_tenant(self) -> Mapping[TenantId, float]:
        """The counters of all tenants seen."""
        return self._counter

    @property
    def waiting(self) -> list[TenantId]:
        """Tenants with at least one waiting request."""
        return list(self._waiting)

    def enqueue(self, tenant: TenantId) -> None:
        """One more request of the tenant waits."""
        if tenant not in self._waiting:
            self._seen.setdefault(tenant, len(self._seen))
            self._counter.setdefault(tenant, 0.0)
            if self._lifts:
                self._lift(tenant)
            self._places.put(tenant, self.place(tenant))
        self._waiting[tenant] = self._waiting.get(tenant, 0) + 1
        self.changes += 1

    def dequeue(self, tenant: TenantId) -> None:
        """One request of the tenant left the queue, admitted or aborted."""
        self.changes += 1
        self._waiting[tenant] -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant]
            self._places.remove(tenant)
            self._last_left = tenant

    def charge(self, tenant: TenantId, charge: float, weight: float) -> None:
        """Raise the counter; a negative charge is a refund and lowers it."""
        self.changes += 1
        before, growth = self._counter[tenant], charge / weight + self._rounded_off.get(tenant, 0.0)
        counter = self._counter[tenant] = before + growth
        # The error of this sum, without any of its own (Knuth, The Art of Computer Programming 2, theorem 4.2.2 B).
        grown = counter - before
        self._rounded_off[tenant] = (before - (counter - grown)) + (growth - grown)
        if charge < 0 and tenant in self._waiting:
            self._places.put(tenant, (counter, self._seen[tenant]))

    @property
    def at_least(self) -> float:
        """A lower bound of the waiting tenants' counters, 0 if none waits. O(1), unlike the smallest itself."""
        least = self._places.least()
        return 0.0 if least is None else least[0]

    def smallest(self) -> TenantId | None:
        """The waiting tenant with the smallest counter, the first seen among equals; None if none waits."""
        return self._places.first_grown(self._counter)

    def place(self, tenant: TenantId) -> tuple[float, int]:
        """Its counter, and its number in the order in which tenants were first seen. No two tenants' are equal."""
        return self._counter[tenant], self._seen[tenant]

    def in_order(self) -> list[TenantId]:
        """Waiting tenants, smallest counter first, the first seen among equals."""
        return sorted(self._waiting, key=self.place)

    def _lift(self, tenant: TenantId) -> None:
        smallest = self.smallest()
        level = self._last_left if smallest is None else smallest
        if level is not None and self._counter[level] > self._counter[tenant]:
            self._counter[tenant] = self._counter[level]
            self._rounded_off.pop(tenant, None)
