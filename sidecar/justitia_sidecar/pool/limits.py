"""Tenants' limits over all sidecars of a pool, which tell each other by the pool's log what they use.

- Running requests: slots are claimed before they are used (`slots.py`), so that the limit holds.
- Waiting requests: those of the others count, too. Until others hear of them, each sidecar may accept up to the limit.
- Tokens per minute: what the others have counted is taken from the bucket here, and what they reserve is reserved here.
  Until others hear of it, each sidecar may accept what its bucket has.

A sidecar of which nothing has reached the log for `TRUST` has a part of each limit by itself, until it knows again what
all others use: the limit divided by the engines that it knew, and at least one running request. `TRUST` is shorter than
`LEASE`, after which the others use what it had. What it counts meanwhile is not taken from the others' buckets, nor
what they count from its own.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from justitia_api.config import PoolConfig
from justitia_api.status import LimitScope
from justitia_sidecar.pool.slots import NOTHING, Demand, Slots
from justitia_sidecar.pool.state import LEASE
from justitia_sidecar.pool.updates import LimitUse, Update, WriterId
from justitia_sidecar.pool.uses import Change, Uses
from justitia_vocabulary.units import Seconds, TenantId, Tokens

TRUST: Seconds = LEASE - 1.0
MOST_WEIGHED, A_TENANT = 1600, 8
"""Claims that are looked at for one update, which takes about a millisecond; a tenant is as much work as some claims.
The other tenants follow in the next update.
"""
MOST_PRESSING = 200
"""Tenants that may have the next update written at once."""

_NOTHING_USED = LimitUse()
_NEVER: Seconds = float("-inf")


class Metered(NamedTuple):
    """The tokens of a tenant at one sidecar: counted in all, reserved for requests under way, and missing in its
    bucket.
    """

    counted: Tokens = 0
    reserved: Tokens = 0
    spent: Tokens = 0


NOTHING_METERED = Metered()


class PoolLimits:
    """`demand`, `waiting` and `metered` say what a tenant uses here. `on_slots` is called when it may use more slots,
    `on_counted` when others have counted tokens, `on_met` with what is missing in the bucket of a sidecar that is met.
    """

    def __init__(self, clock: Callable[[], Seconds]) -> None:
        self.demand: Callable[[TenantId], Demand] = lambda tenant: NOTHING
        self.waiting: Callable[[TenantId], int] = lambda tenant: 0
        self.metered: Callable[[TenantId], Metered] = lambda tenant: NOTHING_METERED
        self.on_slots: Callable[[TenantId], None] = lambda tenant: None
        self.on_counted: Callable[[TenantId, Tokens], None] = lambda tenant, tokens: None
        self.on_met: Callable[[TenantId, Tokens], None] = lambda tenant, spent: None
        self._clock = clock
        self._shares = False
        self._running: dict[TenantId, int] = {}
        self._queued: set[TenantId] = set()
        self._per_minute: set[TenantId] = set()
        self._limited: set[TenantId] = set()
        self.begin(WriterId(""))

    # What is limited, and over what.

    def begin(self, writer: WriterId) -> None:
        """This sidecar goes by that name, and knows no other."""
        self._own = writer
        self._uses = Uses()
        self._slots: dict[TenantId, Slots] = {}
        self._touched: dict[TenantId, None] = {}
        """Tenants of which there may be something new to say."""
        self._lacking: dict[TenantId, None] = {}
        """Tenants of which somebody lacks slots."""
        self._asking: set[TenantId] = set()
        """Tenants of which more is claimed than granted."""
        self._risen: dict[TenantId, None] = {}
        """Tenants that may use more slots than before."""
        self._said: dict[TenantId, LimitUse] = {}
        self._number = -1
        self._began: Seconds = 0.0
        self._trusted_until = _NEVER
        self._heard_all = self._unreached = False
        self._cut_off = True
        self._scope = LimitScope.ENGINE
        self._touch_all()

    def configure(self, config: PoolConfig, *, shares: bool) -> None:
        """Take the limits of a configuration. `shares`: the pool's engines tell each other what they use."""
        if self._shares and not shares:
            self.begin(self._own)
        self._shares = shares
        limits = {TenantId(tenant.name): tenant.limits for tenant in config.tenants}
        self._running = {name: each.running_requests for name, each in limits.items() if each.running_requests}
        self._queued = {name for name, each in limits.items() if each.queued_requests}
        self._per_minute = {name for name, each in limits.items() if each.tokens_per_minute}
        self._limited = self._running.keys() | self._queued | self._per_minute
        self._touch_all()

    def scope(self, now: Seconds) -> LimitScope:
        """What limits count over at the moment."""
        if not self._shares:
            return LimitScope.ENGINE
        joins = self._trusted_until == _NEVER and not self._unreached
        return LimitScope.POOL if joins or now <= self._trusted_until else LimitScope.PART

    # What a request asks.

    def fits(self, tenant: TenantId, limit: int, used: int, sequences: int) -> bool:
        """Whether a request may begin, while so many of its tenant's sequences run here."""
        if self._shares and self.scope(self._clock()) is LimitScope.POOL:
            slots = self._slots.get(tenant)
            return slots is not None and used + min(sequences, limit) <= slots.most
        return not used or used + sequences <= self._part(limit)

    def room_to_wait(self, tenant: TenantId, limit: int) -> int:
        """How many of the tenant's sequences may wait here."""
        if self._shares and self.scope(self._clock()) is LimitScope.POOL:
            return limit - self._uses.of(tenant).waiting
        return self._part(limit)

    def reserved_elsewhere(self, tenant: TenantId) -> Tokens:
        shared = self._shares and self.scope(self._clock()) is LimitScope.POOL
        return self._uses.of(tenant).reserved if shared else 0

    def earning(self, since: Seconds, now: Seconds) -> Seconds:
        """For how much of the time a bucket fills as its whole limit says."""
        if not self._shares:
            return now - since
        whole = max(0.0, min(now, self._trusted_until) - since)
        return whole + (now - since - whole) / self._uses.engines

    def touch(self, tenant: TenantId) -> None:
        """What the tenant uses here has changed."""
        if self._shares and tenant in self._limited:
            self._touched[tenant] = None

    # Exchanges.

    def attempt(self, now: Seconds) -> None:
        """An update is about to be written, maybe one that was made before."""
        if self._began <= self._trusted_until < now:
            self._cut_off = True
            self._uses.doubt()
            for slots in self._slots.values():
                slots.lose()
            self._touch_all()
        self._began = now

    def tell(self, number: int, whole: bool, now: Seconds) -> dict[TenantId, LimitUse]:
        """What the update of that number has to say. It counts here from now on."""
        self._number = number
        if not self._shares:
            return {}
        changed = dict(self._decide(now))
        return dict(self._said) if whole else changed

    def heard(self, update: Update, now: Seconds) -> None:
        """Take an update, an own one as well."""
        if not self._shares:
            return
        if update.writer == self._own:
            if update.number == self._number:
                self._read_back()
            return
        engines = self._uses.engines
        for change in self._uses.heard(update, now):
            self._apply(change)
        if self._uses.engines != engines:
            self._touch_all()

    def exchanged(self, now: Seconds) -> None:
        """The own update has been written, and all that others wrote before has been heard."""
        if self._cut_off:
            self._cut_off = False
            self._uses.back(now)
        engines = self._uses.engines
        for change in self._uses.expire(now):
            self._apply(change)
        if self._uses.engines != engines:
            self._touch_all()
        self._heard_all, self._unreached = True, False
        if self._uses.sure or self._began <= self._trusted_until:
            self._trusted_until = self._began + TRUST
        risen, self._risen = self._risen, {}
        for tenant in risen:
            self.on_slots(tenant)
        self.look(now)

    def failed(self, now: Seconds) -> None:
        """The log was not reached."""
        self._unreached = True
        self._cut_off |= now > self._trusted_until
        self.look(now)

    def look(self, now: Seconds) -> None:
        """If limits count over something else than before, let those begin that may."""
        before, self._scope = self._scope, self.scope(now)
        if self._scope is not before:
            for tenant in self._running:
                self.on_slots(tenant)

    def presses(self) -> bool:
        """Whether the next update should not wait."""
        return any(
            self._slots[tenant].presses(limit, min(limit, self.demand(tenant).wants))
            for tenant in islice(self._lacking, MOST_PRESSING)
            if (limit := self._running.get(tenant)) is not None and tenant in self._slots
        )

    # How.

    def _part(self, limit: int) -> int:
        """What this engine has by itself. Without others that is the limit."""
        return max(1, limit // self._uses.engines)

    def _slots_of(self, tenant: TenantId) -> Slots:
        slots = self._slots.get(tenant)
        if slots is None:
            slots = self._slots[tenant] = Slots(self._own)
        return slots

    def _touch_all(self) -> None:
        if self._shares:
            self._touched |= dict.fromkeys(self._limited)

    def _apply(self, change: Change) -> None:
        self._touched[change.tenant] = None
        if change.tenant in self._slots or (change.use is not None and change.use.slots):
            self._slots_of(change.tenant).heard(change.writer, change.use)
        if change.use is not None and change.use.wants > change.use.slots:
            self._lacking[change.tenant] = None
        if change.more:
            self.on_counted(change.tenant, change.more)
        if change.spent:
            self.on_met(change.tenant, change.spent)

    def _read_back(self) -> None:
        if not self._uses.sure:
            return
        for tenant in self._asking:
            if (limit := self._running.get(tenant)) is not None and self._slots[tenant].said(limit):
                self._risen[tenant] = None

    def _decide(self, now: Seconds) -> Iterator[tuple[TenantId, LimitUse]]:
        """Decide on what has been touched. Yields what is new to say."""
        left, touched, self._touched = MOST_WEIGHED, list(self._touched), {}
        for place, tenant in enumerate(touched):
            if left <= 0:
                self._touched = dict.fromkeys(touched[place:]) | self._touched
                return
            before = self._said.get(tenant, _NOTHING_USED)
            claim, contended = self._claim(tenant, now)
            left -= A_TENANT + self._uses.engines if contended else A_TENANT
            if contended or claim.slots != before.slots:
                self._touched[tenant] = None
            use = self._use(tenant, claim, before)
            if use == before:
                continue
            if use == _NOTHING_USED:
                del self._said[tenant]
            else:
                self._said[tenant] = use
            yield tenant, use

    def _claim(self, tenant: TenantId, now: Seconds) -> tuple[LimitUse, bool]:
        """Claim slots for what runs and waits here. Returns the claim, and whether slots are contended."""
        limit, slots = self._running.get(tenant), self._slots.get(tenant)
        if limit is None:
            self._lacking.pop(tenant, None)
            self._asking.discard(tenant)
            if slots is not None:
                slots.give_up()
            return _NOTHING_USED, False
        slots = self._slots_of(tenant)
        part, most = limit // self._uses.engines if self._heard_all else 0, slots.most
        contended = slots.decide(limit, part, self.demand(tenant), now)
        if slots.most > most:
            self._risen[tenant] = None
        if contended:
            self._lacking[tenant] = None
        else:
            self._lacking.pop(tenant, None)
        (self._asking.add if slots.claim.slots > slots.granted else self._asking.discard)(tenant)
        return slots.claim, contended

    def _use(self, tenant: TenantId, claim: LimitUse, before: LimitUse) -> LimitUse:
        """What is used of all limits, where it was that `before`. What is missing in a bucket changes all the time, and
        alone is no news.
        """
        waiting = self.waiting(tenant) if tenant in self._queued else 0
        counted, reserved, spent = self.metered(tenant) if tenant in self._per_minute else NOTHING_METERED
        if counted == before.tokens and reserved == before.reserved:
            spent = before.spent
        slots, wants, at_once, ticket = claim.slots, claim.wants, claim.at_once, claim.ticket
        return LimitUse(slots, wants, at_once, ticket, waiting, counted, reserved, spent)
