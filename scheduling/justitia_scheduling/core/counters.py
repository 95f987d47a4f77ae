"""Virtual token counters: how much of its weight's worth each tenant has been served (VTC, Algorithm 2).

A tenant's counter is `c = service / weight`, in the pool's cost model. Serving the waiting tenant with the
smallest counter shares the engine by weight. A tenant that comes back after an absence is *lifted*, so that it
cannot claim what it did not ask for while it was away:

- to the smallest counter of the tenants that wait, where any does;
- else to the counter of the last tenant that left the queue;

and never lowered by it. "Comes back" means that none of its requests was waiting; running ones do not count.
Without lift (least counter first) a tenant keeps what it did not use.

The smallest is found in a heap whose entry for a tenant may be too small but never too large: a charge leaves it
as it is, and it is raised when it surfaces; a refund, which makes the counter fall, enters the tenant again and
makes the older entry void. So it costs O(log tenants) for each tenant charged since, and for each refund.
"""

import heapq
from collections.abc import Mapping

from justitia_vocabulary.units import TenantId


class TenantCounters:
    """Normalised service of every tenant seen, and which of them wait. `changes` counts the changes to either."""

    def __init__(self, *, lift: bool = True) -> None:
        self.changes = 0
        self._lifts = lift
        self._counter: dict[TenantId, float] = {}
        self._seen: dict[TenantId, int] = {}
        self._waiting: dict[TenantId, int] = {}
        self._last_left: TenantId | None = None
        self._heap: list[tuple[float, int, TenantId]] = []
        self._entry: dict[TenantId, float] = {}

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
        self.changes += 1
        if tenant not in self._waiting:
            self._seen.setdefault(tenant, len(self._seen))
            self._counter.setdefault(tenant, 0.0)
            if self._lifts:
                self._lift(tenant)
            if tenant not in self._entry:
                self._enter(tenant)
        self._waiting[tenant] = self._waiting.get(tenant, 0) + 1

    def dequeue(self, tenant: TenantId) -> None:
        """One request of the tenant left the queue, admitted or aborted."""
        self.changes += 1
        self._waiting[tenant] -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant]
            self._last_left = tenant

    def charge(self, tenant: TenantId, charge: float, weight: float) -> None:
        """Raise the counter; a negative charge is a refund and lowers it."""
        self.changes += 1
        counter = self._counter[tenant] = self._counter[tenant] + charge / weight
        if charge < 0 and counter < self._entry.get(tenant, float("-inf")):
            self._enter(tenant)

    @property
    def at_least(self) -> float:
        """No waiting tenant's counter is smaller than this; O(1), where the smallest has to be looked for."""
        return self._heap[0][0] if self._heap else 0.0

    def smallest(self) -> TenantId | None:
        """The waiting tenant with the smallest counter, the first seen among equals; None if none waits."""
        while self._heap:
            counter, seen, tenant = self._heap[0]
            if self._entry.get(tenant) != counter:
                heapq.heappop(self._heap)
            elif tenant not in self._waiting:
                heapq.heappop(self._heap)
                del self._entry[tenant]
            elif counter < self._counter[tenant]:
                self._entry[tenant] = self._counter[tenant]
                heapq.heapreplace(self._heap, (self._counter[tenant], seen, tenant))
            else:
                return tenant
        return None

    def place(self, tenant: TenantId) -> tuple[float, int]:
        """Its counter, and its number in the order in which tenants were first seen. No two tenants' are equal."""
        return self._counter[tenant], self._seen[tenant]

    def in_order(self) -> list[TenantId]:
        """Waiting tenants, smallest counter first, the first seen among equals."""
        return sorted(self._waiting, key=self.place)

    def _lift(self, tenant: TenantId) -> None:
        own = self._counter[tenant]
        smallest = self.smallest()
        if smallest is not None:
            self._counter[tenant] = max(own, self._counter[smallest])
        elif self._last_left is not None:
            self._counter[tenant] = max(own, self._counter[self._last_left])

    def _enter(self, tenant: TenantId) -> None:
        """Put the tenant into the heap with its present counter; drop void entries once they outnumber the others."""
        self._entry[tenant] = self._counter[tenant]
        heapq.heappush(self._heap, (self._counter[tenant], self._seen[tenant], tenant))
        if len(self._heap) > 2 * len(self._entry) + 64:
            self._heap = [(counter, self._seen[tenant], tenant) for tenant, counter in self._entry.items()]
            heapq.heapify(self._heap)
