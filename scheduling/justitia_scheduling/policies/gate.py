"""Which tenants may be served, and the first of them: the gate of tiered Justitia (`tiered.py` derives it).

Every waiting tenant g has a counter c_g (service per weight), the key of its first run and a slack s_g. With B
the burst, tenant f may be served iff

    c_f <= limit = min over waiting g of (c_g + min(B, s_g)) = min(min c_g + B, min (c_g + s_g))

and among those the smallest key goes first. Both minima and the choice are kept in heaps that are put right as
their tops are looked at. Counters only grow, so an entry may be too small and never too large; a tenant whose
counter has passed the limit moves from the open to the held ones when it surfaces, and back when the limit has
passed it. So an answer costs O(log tenants) for each tenant that was charged or changed since the last one, and O(1)
if nothing has changed. Where no counter can be small enough for the burst to decide the limit, the smallest counter is
not looked for.
"""

import heapq
from dataclasses import dataclass

from justitia_scheduling.core.counters import TenantCounters
from justitia_scheduling.core.runqueue import RunKey
from justitia_vocabulary.units import TenantId


@dataclass(slots=True, eq=False)
class _First:
    """A tenant's first run. Heap entries hold it and are out of date once it is not `live`."""

    tenant: TenantId
    key: RunKey
    slack: float
    live: bool = True


_Entry = tuple[float, int, _First]


class TenantGate:
    """The waiting tenants with their counters and first runs."""

    def __init__(self) -> None:
        self.counters = TenantCounters()
        self._first: dict[TenantId, _First] = {}
        self._entered = 0
        self._bounds: list[_Entry] = []
        self._open: list[tuple[RunKey, int, _First]] = []
        self._held: list[_Entry] = []
        self._latest_limit = 0.0
        self._changes = 0
        self._answered: tuple[int, int, float] | None = None
        self._answer: TenantId | None = None

    def key(self, tenant: TenantId) -> RunKey | None:
        """Key of the tenant's first run, None if none of its requests waits."""
        first = self._first.get(tenant)
        return None if first is None else first.key

    def put_first(self, tenant: TenantId, key: RunKey, slack: float) -> None:
        """The tenant's first run, or its key, has changed."""
        self._changes += 1
        if tenant in self._first:
            self._first[tenant].live = False
        first = self._first[tenant] = _First(tenant, key, slack)
        self._entered += 1
        counter = self.counters[tenant]
        heapq.heappush(self._bounds, (counter + slack, self._entered, first))
        if counter <= self._latest_limit:
            heapq.heappush(self._open, (key, self._entered, first))
        else:
            heapq.heappush(self._held, (counter, self._entered, first))
        self._compact()

    def drop(self, tenant: TenantId) -> None:
        """Nothing of the tenant waits."""
        if (first := self._first.pop(tenant, None)) is not None:
            self._changes += 1
            first.live = False

    def limit(self, burst: float) -> float:
        """The largest counter with which a waiting tenant may be served; 0 if none waits."""
        if not self._first:
            return 0.0
        bound = self._least_bound()
        if bound <= self.counters.at_least + burst:
            return bound
        least = self.counters.smallest()
        return bound if least is None else min(self.counters[least] + burst, bound)

    def best(self, burst: float) -> TenantId | None:
        """The tenant to serve, None if none waits."""
        asked = (self.counters.changes, self._changes, burst)
        if asked != self._answered:
            self._answered, self._answer = asked, self._best(burst)
        return self._answer

    def _best(self, burst: float) -> TenantId | None:
        limit = self._latest_limit = self.limit(burst)
        self._release(limit)
        counter, waiting = self.counters.by_tenant, self._open
        while waiting:
            _, entered, first = waiting[0]
            if first.live and counter[first.tenant] <= limit:
                return first.tenant
            heapq.heappop(waiting)
            if first.live:
                heapq.heappush(self._held, (counter[first.tenant], entered, first))
        return None

    def _least_bound(self) -> float:
        """The smallest c_g + s_g; some tenant waits."""
        counter, bounds = self.counters.by_tenant, self._bounds
        while True:
            bound, entered, first = bounds[0]
            if not first.live:
                heapq.heappop(bounds)
            elif bound < (now := counter[first.tenant] + first.slack):
                heapq.heapreplace(bounds, (now, entered, first))
            else:
                return bound

    def _release(self, limit: float) -> None:
        """Open the gate for held tenants that the limit has passed."""
        counter, held = self.counters.by_tenant, self._held
        while held and held[0][0] <= limit:
            seen, entered, first = held[0]
            if first.live and seen < counter[first.tenant]:
                heapq.heapreplace(held, (counter[first.tenant], entered, first))
            else:
                heapq.heappop(held)
                if first.live:
                    heapq.heappush(self._open, (first.key, entered, first))

    def _compact(self) -> None:
        """Drop entries that are out of date once they outnumber the others."""
        most = 2 * len(self._first) + 64
        if max(len(self._bounds), len(self._open), len(self._held)) <= most:
            return
        self._bounds = [entry for entry in self._bounds if entry[2].live]
        self._open = [entry for entry in self._open if entry[2].live]
        self._held = [entry for entry in self._held if entry[2].live]
        heapq.heapify(self._bounds)
        heapq.heapify(self._open)
        heapq.heapify(self._held)
