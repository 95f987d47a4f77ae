"""Which tenants may be served, and the first of them: the gate of tiered Justitia (`tiered.py` derives it).

Every waiting tenant g has a counter c_g (service per weight), the key of its first run and a slack s_g. With B
the burst, tenant f may be served iff

    c_f <= limit = min over waiting g of (c_g + min(B, s_g)) = min(min c_g + B, min (c_g + s_g))

and among those the smallest key goes first. Both minima and the choice are kept in heaps that are put right as
their tops are looked at. Counters only grow, so an entry may be too small and never too large; a tenant whose
counter has passed the limit moves from the open to the held ones when it surfaces, and back when the limit has
passed it. So an answer costs O(log tenants) for each tenant that was charged or changed since the last one.
"""

import heapq
from dataclasses import dataclass

from justitia_scheduling.counters import TenantCounters
from justitia_scheduling.model import TenantId

RunKey = tuple[float, int]


@dataclass(slots=True)
class _First:
    key: RunKey
    slack: float
    version: int


class TenantGate:
    """The waiting tenants with their counters and first runs."""

    def __init__(self) -> None:
        self.counters = TenantCounters()
        self._first: dict[TenantId, _First] = {}
        self._version = 0
        self._bounds: list[tuple[float, int, TenantId]] = []
        self._open: list[tuple[RunKey, int, TenantId]] = []
        self._held: list[tuple[float, int, TenantId]] = []

    def key(self, tenant: TenantId) -> RunKey | None:
        """Key of the tenant's first run, None if none of its requests waits."""
        first = self._first.get(tenant)
        return None if first is None else first.key

    def put_first(self, tenant: TenantId, key: RunKey, slack: float) -> None:
        """The tenant's first run, or its key, has changed."""
        self._version += 1
        self._first[tenant] = _First(key, slack, self._version)
        heapq.heappush(self._bounds, (self.counters[tenant] + slack, self._version, tenant))
        heapq.heappush(self._open, (key, self._version, tenant))
        self._compact()

    def drop(self, tenant: TenantId) -> None:
        """Nothing of the tenant waits."""
        del self._first[tenant]

    def limit(self, burst: float) -> float:
        """The largest counter with which a waiting tenant may be served; 0 if none waits."""
        least = self.counters.smallest()
        if least is None:
            return 0.0
        while True:
            bound, version, tenant = self._bounds[0]
            first = self._current(tenant, version)
            if first is None:
                heapq.heappop(self._bounds)
            elif bound < (now := self.counters[tenant] + first.slack):
                heapq.heapreplace(self._bounds, (now, version, tenant))
            else:
                return min(self.counters[least] + burst, bound)

    def best(self, burst: float) -> TenantId | None:
        """The tenant to serve, None if none waits."""
        limit = self.limit(burst)
        self._release(limit)
        while self._open:
            _, version, tenant = self._open[0]
            if self._current(tenant, version) is None:
                heapq.heappop(self._open)
            elif self.counters[tenant] > limit:
                heapq.heappop(self._open)
                heapq.heappush(self._held, (self.counters[tenant], version, tenant))
            else:
                return tenant
        return None

    def _release(self, limit: float) -> None:
        """Open the gate for held tenants that the limit has passed."""
        while self._held:
            counter, version, tenant = self._held[0]
            first = self._current(tenant, version)
            if first is None:
                heapq.heappop(self._held)
            elif counter < self.counters[tenant]:
                heapq.heapreplace(self._held, (self.counters[tenant], version, tenant))
            elif counter <= limit:
                heapq.heappop(self._held)
                heapq.heappush(self._open, (first.key, version, tenant))
            else:
                return

    def _current(self, tenant: TenantId, version: int) -> _First | None:
        """What an entry stands for, None if it is out of date."""
        first = self._first.get(tenant)
        return first if first is not None and first.version == version else None

    def _compact(self) -> None:
        """Drop entries that are out of date once they outnumber the others."""
        most = 2 * len(self._first) + 64
        if max(len(self._bounds), len(self._open), len(self._held)) <= most:
            return
        self._bounds = [entry for entry in self._bounds if self._current(entry[2], entry[1])]
        self._open = [entry for entry in self._open if self._current(entry[2], entry[1])]
        self._held = [entry for entry in self._held if self._current(entry[2], entry[1])]
        heapq.heapify(self._bounds)
        heapq.heapify(self._open)
        heapq.heapify(self._held)
