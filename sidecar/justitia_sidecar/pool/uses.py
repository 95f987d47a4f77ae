"""What the other sidecars of a pool use of tenants' limits, by their updates, in the order of the log.

A sidecar is `sure` of another one if it has missed nothing of what it said since a whole update. What another one had
counted before it was met is nobody's news: only what it counts from then on is growth.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from justitia_sidecar.pool.state import LEASE
from justitia_sidecar.pool.updates import LimitUse, Update, WriterId
from justitia_vocabulary.units import Seconds, TenantId, Tokens


@dataclass(slots=True)
class _Writer:
    """Another sidecar. It was `met` with its first whole update."""

    heard: Seconds
    number: int
    sure: bool = False
    met: bool = False
    uses: dict[TenantId, LimitUse] = field(default_factory=dict)
    counted: dict[TenantId, Tokens] = field(default_factory=dict)


class Elsewhere(NamedTuple):
    """What all others have of a tenant: requests that wait, and tokens that are reserved."""

    waiting: int = 0
    reserved: Tokens = 0


class Change(NamedTuple):
    """What one of the others says of a tenant; None if it uses nothing any more. It has counted so many tokens more. If
    it is met with this, `spent` are missing in its bucket.
    """

    writer: WriterId
    tenant: TenantId
    use: LimitUse | None
    more: Tokens = 0
    spent: Tokens = 0


NOTHING_ELSEWHERE = Elsewhere()
_NOTHING_USED = LimitUse()


class Uses:
    """What all but this sidecar use."""

    def __init__(self) -> None:
        self._writers: dict[WriterId, _Writer] = {}
        self._of_tenants: dict[TenantId, Elsewhere] = {}

    @property
    def engines(self) -> int:
        """The engines of the pool, this one included."""
        return len(self._writers) + 1

    @property
    def sure(self) -> bool:
        return all(writer.sure for writer in self._writers.values())

    def of(self, tenant: TenantId) -> Elsewhere:
        return self._of_tenants.get(tenant, NOTHING_ELSEWHERE)

    def heard(self, update: Update, now: Seconds) -> Iterator[Change]:
        """Take an update of another sidecar."""
        name = update.writer
        writer = self._writers.get(name)
        if writer is None:
            writer = self._writers[name] = _Writer(now, -1)
        writer.heard = now
        if update.number <= writer.number:
            return
        writer.sure = update.whole or (writer.sure and update.number == writer.number + 1)
        writer.number = update.number
        for tenant, use in update.limits.items():
            if not writer.met or use != writer.uses.get(tenant):
                yield self._take(name, writer, tenant, use)
        if update.whole:
            writer.met = True
            for tenant in writer.uses.keys() - update.limits.keys():
                yield self._drop(name, writer, tenant)

    def doubt(self) -> None:
        """This sidecar was cut off: the others may have said what it has missed."""
        for writer in self._writers.values():
            writer.sure = writer.met = False

    def back(self, now: Seconds) -> None:
        """This sidecar is not cut off any more: the others have time to come back, too."""
        for writer in self._writers.values():
            writer.heard = now

    def expire(self, now: Seconds) -> Iterator[Change]:
        """Who has not been heard of for some time is gone, and uses nothing."""
        for name, writer in list(self._writers.items()):
            if now - writer.heard > LEASE:
                for tenant in list(writer.uses):
                    yield self._drop(name, writer, tenant)
                del self._writers[name]

    # How.

    def _take(self, name: WriterId, writer: _Writer, tenant: TenantId, use: LimitUse) -> Change:
        before, counted = writer.uses.get(tenant, _NOTHING_USED), writer.counted.get(tenant, 0)
        writer.uses[tenant] = use
        if use.waiting != before.waiting or use.reserved != before.reserved:
            self._add(tenant, use.waiting - before.waiting, use.reserved - before.reserved)
        if not writer.met:
            writer.counted[tenant] = use.tokens
            return Change(name, tenant, use, 0, use.spent)
        if use.tokens <= counted:
            return Change(name, tenant, use)
        writer.counted[tenant] = use.tokens
        return Change(name, tenant, use, use.tokens - counted)

    def _drop(self, name: WriterId, writer: _Writer, tenant: TenantId) -> Change:
        use = writer.uses.pop(tenant)
        self._add(tenant, -use.waiting, -use.reserved)
        return Change(name, tenant, None)

    def _add(self, tenant: TenantId, waiting: int, reserved: Tokens) -> None:
        before = self.of(tenant)
        after = Elsewhere(before.waiting + waiting, before.reserved + reserved)
        if after == NOTHING_ELSEWHERE:
            self._of_tenants.pop(tenant, None)
        else:
            self._of_tenants[tenant] = after
