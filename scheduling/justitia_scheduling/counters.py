"""Virtual token counters: how much of its weight's worth each tenant has been served (VTC, Algorithm 2).

A tenant's counter is `c = service / weight`, in the pool's cost model. Serving the waiting tenant with the
smallest counter shares the engine by weight. A tenant that comes back after an absence is *lifted*, so that it
cannot claim what it did not ask for while it was away:

- to the smallest counter of the tenants that wait, where any does;
- else to the counter of the last tenant that left the queue;

and never lowered. "Comes back" means that none of its requests was waiting; running ones do not count.
Counters never fall, so the heap below may hold values that are too small but none that is too large: the
smallest is found by raising stale entries as they surface, O(log tenants) for each tenant charged since.
"""

import heapq
from collections.abc import Mapping

from justitia_scheduling.model import TenantId


class TenantCounters:
    """Normalised service of every tenant seen, and which of them wait."""

    def __init__(self) -> None:
        self._counter: dict[TenantId, float] = {}
        self._seen: dict[TenantId, int] = {}
        self._waiting: dict[TenantId, int] = {}
        self._last_left: TenantId | None = None
        self._heap: list[tuple[float, int, TenantId]] = []
        self._in_heap: set[TenantId] = set()

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
            self._lift(tenant)
            if tenant not in self._in_heap:
                self._in_heap.add(tenant)
                heapq.heappush(self._heap, (self._counter[tenant], self._seen[tenant], tenant))
        self._waiting[tenant] = self._waiting.get(tenant, 0) + 1

    def dequeue(self, tenant: TenantId) -> None:
        """One request of the tenant left the queue, admitted or aborted."""
        self._waiting[tenant] -= 1
        if not self._waiting[tenant]:
            del self._waiting[tenant]
            self._last_left = tenant

    def charge(self, tenant: TenantId, charge: float, weight: float) -> None:
        self._counter[tenant] += charge / weight

    def smallest(self) -> TenantId | None:
        """The waiting tenant with the smallest counter, the first seen among equals; None if none waits."""
        while self._heap:
            counter, seen, tenant = self._heap[0]
            if tenant not in self._waiting:
                heapq.heappop(self._heap)
                self._in_heap.discard(tenant)
            elif counter < self._counter[tenant]:
                heapq.heapreplace(self._heap, (self._counter[tenant], seen, tenant))
            else:
                return tenant
        return None

    def in_order(self) -> list[TenantId]:
        """Waiting tenants, smallest counter first, the first seen among equals."""
        return sorted(self._waiting, key=lambda tenant: (self._counter[tenant], self._seen[tenant]))

    def _lift(self, tenant: TenantId) -> None:
        self._seen.setdefault(tenant, len(self._seen))
        own = self._counter.setdefault(tenant, 0.0)
        smallest = self.smallest()
        if smallest is not None:
            self._counter[tenant] = max(own, self._counter[smallest])
        elif self._last_left is not None:
            self._counter[tenant] = max(own, self._counter[self._last_left])
