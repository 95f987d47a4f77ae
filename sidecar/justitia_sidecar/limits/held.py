"""The account of all bytes that tenants make this process hold: one bound, shared by weight.

A holding is a copy of a body that was sent, kept as long as it may have to be sent elsewhere; a lesson, kept from a
run's first request to learn from it; a body, until the engine has it; or an answer, until its client has taken it. If
something new does not fit, the tenant with the largest held / weight gives way, where the asker is counted with what it
adds. It loses its newest copy, then its newest lesson, then its newest body, then its largest answer. If that tenant is
the asker, only its copies and lessons give way for a new body, and its copies for a new lesson: else the new holding is
refused.

A tenant's due is the capacity x its weight / (sum of the weights of those that hold something, the asker included). If
something does not fit, all tenants together hold more than the capacity. So the tenant that gives way holds more than
its due, and a tenant within its due loses nothing and is refused nothing. A pinned holding, such as a body that is
being sent to the engine, cannot give way: while the largest tenant has nothing else, what is new is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from justitia_sidecar.limits.room import Ranking
from justitia_vocabulary.units import TenantId


class HeldKind(IntEnum):
    """Kinds of holdings, in the order in which they give way: what costs a client least goes first."""

    COPY = 0
    LESSON = 1
    BODY = 2
    ANSWER = 3


@dataclass(slots=True, eq=False)
class Holding:
    """Bytes that a tenant makes this process hold. `give_way` is called once the account no longer counts them."""

    tenant: TenantId
    kind: HeldKind
    give_way: Callable[[], None]
    size: int = 0
    pinned: bool = False


@dataclass(slots=True)
class _Holder:
    held: int = 0
    by_kind: dict[HeldKind, dict[Holding, None]] = field(default_factory=lambda: {kind: {} for kind in HeldKind})


_OWN: dict[HeldKind, list[HeldKind]] = {
    HeldKind.COPY: [],
    HeldKind.LESSON: [HeldKind.COPY],
    HeldKind.BODY: [HeldKind.COPY, HeldKind.LESSON],
    HeldKind.ANSWER: list(HeldKind),
}
"""What of the asker's own tenant gives way for something of the kind."""


class HeldBytes:
    """A change costs O(log n), n tenants; the choice of an answer that gives way is linear in its tenant's answers."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.total = 0
        self._holders: dict[TenantId, _Holder] = {}
        self._ranking: Ranking[TenantId] = Ranking()

    def held(self, tenant: TenantId) -> int:
        holder = self._holders.get(tenant)
        return 0 if holder is None else holder.held

    def reweight(self, weights: Mapping[TenantId, float]) -> None:
        """Set the weights. A tenant without one has weight 1."""
        self._ranking.reweight(weights)

    def put(self, holding: Holding, size: int) -> bool:
        """Set the size of a holding; 0 ends it. Returns False, and changes nothing, if there is no room."""
        if size == holding.size:
            return True
        displaced: list[tuple[Holding, int]] = []
        while self.total + size - holding.size > self.capacity and size > holding.size:
            victim = self._victim(holding, size - holding.size)
            if victim is None:
                for each, before in reversed(displaced):
                    self._set(each, before)
                return False
            displaced.append((victim, victim.size))
            self._set(victim, 0)
        self._set(holding, size)
        for each, _ in displaced:
            each.give_way()
        return True

    def pin(self, holding: Holding) -> None:
        """Make sure that a holding does not give way any more."""
        holding.pinned = True
        if (holder := self._holders.get(holding.tenant)) is not None:
            holder.by_kind[holding.kind].pop(holding, None)

    def only_a_copy(self, holding: Holding) -> None:
        """Make a holding one of those that give way first."""
        if (holder := self._holders.get(holding.tenant)) is not None:
            holder.by_kind[holding.kind].pop(holding, None)
        holding.kind, holding.pinned = HeldKind.COPY, False
        if holding.size:
            self._holders[holding.tenant].by_kind[HeldKind.COPY][holding] = None

    def _victim(self, asker: Holding, grows: int) -> Holding | None:
        share = self._ranking.normalised(asker.tenant, self.held(asker.tenant) + grows)
        largest = self._ranking.largest()
        if largest is not None and self._ranking.normalised(largest, self.held(largest)) > share:
            return self._gives_way(largest, list(HeldKind))
        victim = self._gives_way(asker.tenant, _OWN[asker.kind])
        return None if victim is asker else victim

    def _gives_way(self, tenant: TenantId, kinds: list[HeldKind]) -> Holding | None:
        if (holder := self._holders.get(tenant)) is None:
            return None
        for kind in kinds:
            if candidates := holder.by_kind[kind]:
                if kind is HeldKind.ANSWER:
                    return max(candidates, key=lambda each: each.size)
                return next(reversed(candidates))
        return None

    def _set(self, holding: Holding, size: int) -> None:
        tenant = holding.tenant
        holder = self._holders.setdefault(tenant, _Holder())
        holder.held += size - holding.size
        self.total += size - holding.size
        holding.size = size
        if size and not holding.pinned:
            holder.by_kind[holding.kind][holding] = None
        else:
            holder.by_kind[holding.kind].pop(holding, None)
        if holder.held:
            self._ranking.put(tenant, holder.held)
        else:
            del self._holders[tenant]
            self._ranking.drop(tenant)
