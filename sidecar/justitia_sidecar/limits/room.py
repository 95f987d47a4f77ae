"""A bounded room that tenants share by weight: longest queue drop, by normalised share.

Sizes are in any unit. If an entry does not fit the capacity C, the tenant with the largest held / weight gives way,
where the asker is counted with its new entry. If the asker has the largest, or nobody has more, the entry is refused.
Else the other tenant's newest entry is displaced, until the new one fits.

A tenant's due is C x weight / (sum of the weights of those that hold something, the asker included). If an entry does
not fit, all tenants together hold more than C, so the largest held / weight is more than C / (sum of weights). So the
tenant that gives way holds more than its due, and an asker that stays within its due never has the largest: it gets in.
This assumes that the newest entry of the largest tenant can be displaced. If it cannot, the new entry is refused.

A change costs O(log n), n tenants (`Ranking`).
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_vocabulary.units import TenantId

Entry = TypeVar("Entry", bound=Hashable)


class Ranking:
    """Finds the tenant that holds most for its weight.

    A tenant without a weight has weight 1. In a tie, the one that was put last is the largest.
    """

    def __init__(self) -> None:
        self._weights: Mapping[TenantId, float] = {}
        self._held: dict[TenantId, tuple[int, int]] = {}
        self._order: LazyHeap[TenantId] = LazyHeap()
        self._stamp = 0

    def weight(self, tenant: TenantId) -> float:
        return self._weights.get(tenant, 1.0)

    def reweight(self, weights: Mapping[TenantId, float]) -> None:
        self._weights = dict(weights)
        for tenant in self._held:
            self._rank(tenant)

    def normalised(self, tenant: TenantId, held: int) -> float:
        return held / self.weight(tenant)

    def put(self, tenant: TenantId, held: int) -> None:
        self._stamp += 1
        self._held[tenant] = (held, self._stamp)
        self._rank(tenant)

    def drop(self, tenant: TenantId) -> None:
        if self._held.pop(tenant, None) is not None:
            self._order.remove(tenant)

    def largest(self) -> TenantId | None:
        return self._order.first()

    def _rank(self, tenant: TenantId) -> None:
        held, stamp = self._held[tenant]
        self._order.put(tenant, (-self.normalised(tenant, held), -stamp))


@dataclass(slots=True)
class _Holder(Generic[Entry]):
    """What a tenant holds. `entries` are in order of arrival, each with its size."""

    held: int = 0
    entries: dict[Entry, int] = field(default_factory=dict)


class Room(Generic[Entry]):
    """The room. A capacity of None is no bound."""

    def __init__(self, capacity: int | None, displaceable: Callable[[Entry], bool] = lambda entry: True) -> None:
        self.capacity = capacity
        self.total = 0
        self._displaceable = displaceable
        self._holders: dict[TenantId, _Holder[Entry]] = {}
        self._ranking = Ranking()

    def held(self, tenant: TenantId) -> int:
        holder = self._holders.get(tenant)
        return 0 if holder is None else holder.held

    def reweight(self, weights: Mapping[TenantId, float]) -> None:
        self._ranking.reweight(weights)

    def has_room(self, tenant: TenantId, size: int) -> bool:
        """Whether an entry would get in, even if others are displaced for it."""
        displaced = self._displace(tenant, size)
        if displaced is None:
            return False
        self._restore(displaced)
        return True

    def enter(self, tenant: TenantId, entry: Entry, size: int) -> list[Entry] | None:
        """Let an entry in. Returns the entries that are displaced, or None if the new one is refused."""
        displaced = self._displace(tenant, size)
        if displaced is None:
            return None
        self._add(tenant, entry, size)
        return [given for _, given, _ in displaced]

    def leave(self, tenant: TenantId, entry: Entry) -> None:
        """Take an entry out. Does nothing if it is not here."""
        if (holder := self._holders.get(tenant)) is not None and entry in holder.entries:
            self._remove(tenant, entry)

    def _displace(self, tenant: TenantId, size: int) -> list[tuple[TenantId, Entry, int]] | None:
        displaced: list[tuple[TenantId, Entry, int]] = []
        share = self._ranking.normalised(tenant, self.held(tenant) + size)
        while self.capacity is not None and self.total + size > self.capacity:
            largest = self._ranking.largest()
            if largest is None or self._ranking.normalised(largest, self.held(largest)) <= share:
                self._restore(displaced)
                return None
            newest = next(reversed(self._holders[largest].entries))
            if not self._displaceable(newest):
                self._restore(displaced)
                return None
            displaced.append((largest, newest, self._remove(largest, newest)))
        return displaced

    def _restore(self, displaced: list[tuple[TenantId, Entry, int]]) -> None:
        for tenant, entry, size in reversed(displaced):
            self._add(tenant, entry, size)

    def _add(self, tenant: TenantId, entry: Entry, size: int) -> None:
        holder = self._holders.setdefault(tenant, _Holder())
        holder.entries[entry] = size
        holder.held += size
        self.total += size
        self._ranking.put(tenant, holder.held)

    def _remove(self, tenant: TenantId, entry: Entry) -> int:
        holder = self._holders[tenant]
        size = holder.entries.pop(entry)
        holder.held -= size
        self.total -= size
        if holder.entries:
            self._ranking.put(tenant, holder.held)
        else:
            del self._holders[tenant]
            self._ranking.drop(tenant)
        return size
