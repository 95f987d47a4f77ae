"""A bounded room that tenants share by weight, and a tenant's applications by theirs: longest queue drop, by normalised
share.

Sizes are in any unit. If an entry does not fit the capacity C, the tenant with the largest held / weight gives way,
where the asker is counted with its new entry. If the asker has the largest, or nobody has more, its own tenant makes
room: of its applications the one with the largest held / weight, where the asking one is counted with its new entry. If
that is the asking one, or none has more, the entry is refused. Else the newest entry of the application with the
largest held / weight, of the tenant that gives way, is displaced, until the new one fits.

A tenant's due is C x weight / (sum of the weights of those that hold something, the asker included). If an entry does
not fit, all tenants together hold more than C, so the largest held / weight is more than C / (sum of weights). So the
tenant that gives way to another one holds more than its due, and an asker that stays within its due never has the
largest: it gets in. In the same way an application's due is its part by weight of what is left to its tenant, C less
what other tenants hold, and one that stays within it gets in. This assumes that the entry to displace can be displaced.
If it cannot, the new entry is refused.

A change costs O(log n), n tenants or applications of one (`Ranking`).
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_vocabulary.units import ApplicationId, TenantId

Entry = TypeVar("Entry", bound=Hashable)
Member = TypeVar("Member", TenantId, ApplicationId)


class Ranking(Generic[Member]):
    """Finds the member, a tenant or an application, that holds most for its weight.

    A member without a weight has weight 1. In a tie, the one that was put last is the largest.
    """

    def __init__(self, weights: Mapping[Member, float] = MappingProxyType({})) -> None:
        self._weights: Mapping[Member, float] = weights
        self._held: dict[Member, tuple[int, int]] = {}
        self._order: LazyHeap[Member] = LazyHeap()
        self._stamp = 0

    def weight(self, member: Member) -> float:
        return self._weights.get(member, 1.0)

    def reweight(self, weights: Mapping[Member, float]) -> None:
        self._weights = dict(weights)
        for member in self._held:
            self._rank(member)

    def normalised(self, member: Member, held: int) -> float:
        return held / self.weight(member)

    def put(self, member: Member, held: int) -> None:
        self._stamp += 1
        self._held[member] = (held, self._stamp)
        self._rank(member)

    def drop(self, member: Member) -> None:
        if self._held.pop(member, None) is not None:
            self._order.remove(member)

    def largest(self) -> Member | None:
        return self._order.first()

    def _rank(self, member: Member) -> None:
        held, stamp = self._held[member]
        self._order.put(member, (-self.normalised(member, held), -stamp))


@dataclass(slots=True)
class _Part(Generic[Entry]):
    """What an application holds. `entries` are in order of arrival, each with its size."""

    held: int = 0
    entries: dict[Entry, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Holder(Generic[Entry]):
    """What a tenant holds."""

    ranking: Ranking[ApplicationId]
    held: int = 0
    parts: dict[ApplicationId, _Part[Entry]] = field(default_factory=dict)

    def normalised(self, application: ApplicationId, more: int = 0) -> float:
        """What the application holds for its weight, and so much `more`."""
        part = self.parts.get(application)
        return self.ranking.normalised(application, more + (0 if part is None else part.held))


class Owner(NamedTuple):
    """Whose an entry is."""

    tenant: TenantId
    application: ApplicationId


class Room(Generic[Entry]):
    """The room. A capacity of None is no bound."""

    def __init__(self, capacity: int | None, displaceable: Callable[[Entry], bool] = lambda entry: True) -> None:
        self.capacity = capacity
        self.total = 0
        self._displaceable = displaceable
        self._holders: dict[TenantId, _Holder[Entry]] = {}
        self._ranking: Ranking[TenantId] = Ranking()
        self._of_applications: Mapping[ApplicationId, float] = {}

    def held(self, tenant: TenantId) -> int:
        holder = self._holders.get(tenant)
        return 0 if holder is None else holder.held

    def reweight(self, tenants: Mapping[TenantId, float], applications: Mapping[ApplicationId, float]) -> None:
        self._ranking.reweight(tenants)
        self._of_applications = dict(applications)
        for holder in self._holders.values():
            holder.ranking = Ranking(self._of_applications)
            for application, part in holder.parts.items():
                holder.ranking.put(application, part.held)

    def has_room(self, owner: Owner, size: int) -> bool:
        """Whether an entry would get in, even if others are displaced for it."""
        displaced = self._displace(owner, size)
        if displaced is None:
            return False
        self._restore(displaced)
        return True

    def enter(self, owner: Owner, entry: Entry, size: int) -> list[Entry] | None:
        """Let an entry in. Returns the entries that are displaced, or None if the new one is refused."""
        displaced = self._displace(owner, size)
        if displaced is None:
            return None
        self._add(owner, entry, size)
        return [given for _, given, _ in displaced]

    def leave(self, owner: Owner, entry: Entry) -> None:
        """Take an entry out. Does nothing if it is not here."""
        holder = self._holders.get(owner.tenant)
        part = None if holder is None else holder.parts.get(owner.application)
        if part is not None and entry in part.entries:
            self._remove(owner, entry)

    def _displace(self, asker: Owner, size: int) -> list[tuple[Owner, Entry, int]] | None:
        displaced: list[tuple[Owner, Entry, int]] = []
        while self.capacity is not None and self.total + size > self.capacity:
            giver = self._gives_way(asker, size)
            newest = None if giver is None else next(reversed(self._part(giver).entries))
            if giver is None or newest is None or not self._displaceable(newest):
                self._restore(displaced)
                return None
            displaced.append((giver, newest, self._remove(giver, newest)))
        return displaced

    def _gives_way(self, asker: Owner, size: int) -> Owner | None:
        """Who makes room for the asker's entry. None if nobody holds more."""
        ranking, tenant = self._ranking, self._ranking.largest()
        share = ranking.normalised(asker.tenant, self.held(asker.tenant) + size)
        if tenant is None:
            return None
        if ranking.normalised(tenant, self.held(tenant)) > share:
            application = self._holders[tenant].ranking.largest()
            return None if application is None else Owner(tenant, application)
        holder = self._holders.get(asker.tenant)
        application = None if holder is None else holder.ranking.largest()
        if holder is None or application is None:
            return None
        more = holder.normalised(application) > holder.normalised(asker.application, size)
        return Owner(asker.tenant, application) if more else None

    def _restore(self, displaced: list[tuple[Owner, Entry, int]]) -> None:
        for owner, entry, size in reversed(displaced):
            self._add(owner, entry, size)

    def _part(self, owner: Owner) -> _Part[Entry]:
        return self._holders[owner.tenant].parts[owner.application]

    def _add(self, owner: Owner, entry: Entry, size: int) -> None:
        tenant, application = owner
        holder = self._holders.get(tenant)
        if holder is None:
            holder = self._holders[tenant] = _Holder(Ranking(self._of_applications))
        part = holder.parts.setdefault(application, _Part())
        part.entries[entry] = size
        part.held += size
        holder.held += size
        self.total += size
        holder.ranking.put(application, part.held)
        self._ranking.put(tenant, holder.held)

    def _remove(self, owner: Owner, entry: Entry) -> int:
        tenant, application = owner
        holder, part = self._holders[tenant], self._part(owner)
        size = part.entries.pop(entry)
        part.held -= size
        holder.held -= size
        self.total -= size
        if part.entries:
            holder.ranking.put(application, part.held)
        else:
            del holder.parts[application]
            holder.ranking.drop(application)
        if holder.parts:
            self._ranking.put(tenant, holder.held)
        else:
            del self._holders[tenant]
            self._ranking.drop(tenant)
        return size
