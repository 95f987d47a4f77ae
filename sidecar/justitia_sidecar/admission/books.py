"""The requests that are here, which of them wait, and whether the bounds of pool and tenants leave room for more.

The books know no order and no engine. An admission decides, and records its decision here. A request

- enters, is held back, and is released into the order when its tenant's limit of running requests leaves room;
- is sent to the engine, counts as running once it has begun, and leaves.

Tenants share the pool's queue by weight (`limits/room.py`). When it is full, the newest request of the tenant that
holds most for its weight is displaced by a request of a tenant that holds less; and so between applications of one.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from justitia_api.config import PoolConfig, TenantLimits
from justitia_scheduling.core.model import ApplicationShare
from justitia_sidecar.admission.amounts import Amounts
from justitia_sidecar.admission.bounds import TenantQueue, check_room, queue_full
from justitia_sidecar.admission.held_back import HeldBack
from justitia_sidecar.admission.outputs import OutputMeans
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import RunTable
from justitia_sidecar.admission.stages import Event, Stage
from justitia_sidecar.limits.room import Owner, Room
from justitia_sidecar.pool.limits import PoolLimits
from justitia_sidecar.pool.slots import Demand
from justitia_vocabulary.policies import PolicyName
from justitia_vocabulary.units import ApplicationId, RequestId, Seconds, TenantId, Tokens

AT_A_TIME = 64
"""The most requests that enter or leave the order at once because their tenant's state has changed."""


@dataclass(slots=True)
class TenantLoad:
    """A tenant's sequences. `released` are those that are not held back; `held` are the requests that are."""

    queued: int = 0
    running: int = 0
    released: int = 0
    held: HeldBack = field(default_factory=HeldBack)


class Books:
    """The books of one pool. `held_up` says whether a tenant's requests stay here because of those that the engine has;
    `waits` says whether a request still waits, so that it may be refused. `pool_limits` says what other engines leave
    of a tenant's limits; without it this engine has each limit for itself.
    """

    def __init__(
        self,
        config: PoolConfig,
        runs: RunTable,
        *,
        waits: Callable[[TrackedRequest], bool],
        held_up: Callable[[TenantId], bool],
        pool_limits: PoolLimits | None = None,
    ) -> None:
        self.runs = runs
        self.outputs = OutputMeans()
        self.amounts = Amounts()
        self.requests: dict[RequestId, TrackedRequest] = {}
        self.load: defaultdict[TenantId, TenantLoad] = defaultdict(lambda: TenantLoad(held=HeldBack(self.share_of)))
        self.queued = 0
        """Sequences that wait, held ones included."""
        self.in_engine = 0
        """The number of requests that the engine has."""
        self.resident: Tokens = 0
        """The KV tokens of those requests, as far as they are known."""
        self.to_release: dict[TenantId, None] = {}
        """Tenants with held requests that nothing holds back."""
        self._held_up = held_up
        self._pool_limits = pool_limits or PoolLimits(lambda: 0.0)
        self._weights: dict[TenantId, float] = {}
        self._shares: dict[ApplicationId, ApplicationShare] | None = None
        self._room: Room[RequestId] = Room(None, lambda request: waits(self.requests[request]))
        self.configure(config)

    def configure(self, config: PoolConfig) -> None:
        """Take the bounds of a configuration. A tenant that it does not name keeps its last weight."""
        self._config = config
        self._limits = {TenantId(tenant.name): tenant.limits for tenant in config.tenants}
        weights = {TenantId(tenant.name): tenant.weight for tenant in config.tenants}
        self._weights |= weights
        self._share(config)
        shares = self._shares or {}
        self._room.reweight(weights, {application: share.weight for application, share in shares.items()})
        self._room.capacity = config.queue.maximum_requests
        self.runs.reweight(weights)

    def _share(self, config: PoolConfig) -> None:
        """Take how applications share, where the policy shares between them."""
        shares = None
        if config.scheduling.policy is PolicyName.TIERED_JUSTITIA:
            shares = {each.id: ApplicationShare(each.weight, each.priority) for each in config.applications}
        if shares == self._shares:
            return
        self._shares = shares
        for load in self.load.values():
            load.held.regroup()

    def share_of(self, application: ApplicationId) -> ApplicationShare | None:
        """How an application shares its tenant's service. None under a policy that does not share between them."""
        return None if self._shares is None else self._shares.get(application, ApplicationShare())

    def weight(self, tenant: TenantId) -> float:
        return self._weights.get(tenant, 1.0)

    # What a request goes through.

    def check_room(self, tenant: TenantId, application: ApplicationId, sequences: int = 1) -> None:
        """Raises a refusal if the pool or the tenant has no room for so many sequences of the application."""
        own = self._limits.get(tenant, TenantLimits())
        most = own.queued_requests
        room = None if most is None else self._pool_limits.room_to_wait(tenant, most)
        check_room(
            sequences,
            self._config.queue.maximum_requests,
            TenantQueue(self.load[tenant].queued, most, room),
            own.running_requests,
        )
        if not self._room.has_room(Owner(tenant, application), sequences):
            raise queue_full(self._config.queue.maximum_requests)

    def enter(self, request: TrackedRequest) -> None:
        """Hold back a new request. If the queue is full, another one is displaced. Its run counts it already.

        Raises a refusal if the queue has filled since `check_room`; call `leave` for the request then, too.
        """
        sequences = request.asks.sequences
        self.requests[request.id] = request
        load = self.load[request.tenant]
        load.queued += sequences
        self.queued += sequences
        load.held.add(request)
        self.amounts.enter(request, round(self.outputs.mean(request.application) or request.asks.max_tokens))
        self._pool_limits.touch(request.tenant)
        displaced = self._room.enter(_owner(request), request.id, sequences)
        if displaced is None:
            raise queue_full(self._config.queue.maximum_requests)
        for each in map(self.requests.__getitem__, displaced):
            each.observer.displaced(each)

    def release(self, tenant: TenantId) -> Iterator[TrackedRequest]:
        """Release the tenant's requests that nothing holds back (`held_back.py`), at most `AT_A_TIME`. What the
        caller does with one may hold up the next.
        """
        self.to_release.pop(tenant, None)
        load, limits = self.load[tenant], self._limits.get(tenant)
        most = limits.running_requests if limits else None
        released = 0
        while load.held and not self._held_up(tenant):
            request = load.held.next()
            if most is not None and not self._fits(request, most):
                return
            if released == AT_A_TIME:
                self.to_release[tenant] = None
                return
            released += 1
            load.held.release(request)
            load.released += request.asks.sequences
            self._pool_limits.touch(tenant)
            request.advance(Event.RELEASE)
            yield request

    def _fits(self, request: TrackedRequest, most: int) -> bool:
        used = self.load[request.tenant].released
        return self._pool_limits.fits(request.tenant, most, used, request.asks.sequences)

    def demand(self, tenant: TenantId) -> Demand:
        """What the tenant uses of its limit of running requests, and wants of it."""
        load = self.load.get(tenant)
        if load is None:
            return Demand()
        next_one = load.held.next().asks.sequences if load.held else 1
        return Demand(load.released, load.queued + load.running, next_one)

    def waiting(self, tenant: TenantId) -> int:
        """The tenant's sequences that wait."""
        load = self.load.get(tenant)
        return 0 if load is None else load.queued

    def hold_back(self, request: TrackedRequest) -> None:
        """Take a request out of the order again, until it is released."""
        request.advance(Event.HOLD_BACK)
        load = self.load[request.tenant]
        load.released -= request.asks.sequences
        self._pool_limits.touch(request.tenant)
        load.held.add(request)

    def send(self, request: TrackedRequest, now: Seconds) -> None:
        """Note that a request goes to the engine, with its prompt."""
        request.advance(Event.SEND)
        request.timing.sent = now
        self.in_engine += 1
        self.hold(request, request.account.prompt)

    def begin(self, request: TrackedRequest) -> None:
        """Count a request as running. It waits no more."""
        sequences, load = request.asks.sequences, self.load[request.tenant]
        request.begun = True
        self.amounts.begin(request)
        load.queued -= sequences
        load.running += sequences
        self.queued -= sequences
        self._pool_limits.touch(request.tenant)
        self._room.leave(_owner(request), request.id)

    def hold(self, request: TrackedRequest, tokens: Tokens) -> None:
        """Note that a request has so many more tokens in the engine."""
        request.placement.resident += tokens
        self.resident += tokens

    def leave(self, request: TrackedRequest, now: Seconds, *, completed: bool, ends_run: bool) -> None:
        """Note that a request is over: completed, or aborted at whatever stage. One that the engine does not have
        counts as aborted.
        """
        completed = completed and request.in_engine
        sequences, load = request.asks.sequences, self.load[request.tenant]
        if request.stage is Stage.HELD:
            load.held.remove(request)
        else:
            load.released -= sequences
            request.run.aborted |= not completed
        if request.begun:
            load.running -= sequences
        else:
            load.queued -= sequences
            self.queued -= sequences
        if request.in_engine:
            self.in_engine -= 1
            self.resident -= request.placement.resident
            if completed:
                self.outputs.observe(request.application, request.account.produced // sequences)
        request.advance(Event.END)
        self._pool_limits.touch(request.tenant)
        self.amounts.leave(request)
        self._room.leave(_owner(request), request.id)
        del self.requests[request.id]
        self.runs.leave(request.run, now, ends=ends_run)


def _owner(request: TrackedRequest) -> Owner:
    return Owner(request.tenant, request.application)
