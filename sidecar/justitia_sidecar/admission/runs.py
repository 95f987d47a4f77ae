"""The table of open runs. A run's key is (tenant, application, id); a request without an id is a run of its own.

A run ends when its client ends it and its open requests are over, or when it has been idle for its timeout. A run that
has passed its maximum age or cost ends at its next request, and a new one begins under the same id.

The number of open runs is bounded, more tightly where other sidecars have to know of them, and tenants share the bound
by weight. Beyond it, the table ends the longest idle
run of the tenant that has the most open runs for its weight, among those that have an idle one. A tenant's due is the
bound x its weight / (sum of the weights of the tenants with open runs); a tenant within its due loses no run. A run
with open requests stays: if no tenant above its due has an idle run, the bound is exceeded until one of its runs is
idle.

No clock, no I/O. The table tells the order of each run that opens or ends.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from justitia_api.config import ApplicationConfig
from justitia_sidecar.limits.room import Ranking
from justitia_vocabulary.units import ApplicationId, KVTokenTime, RunId, Seconds, TenantId

MAXIMUM_OPEN_RUNS = 100_000
AT_A_TIME = 64
"""The most idle runs that end at once because there are too many: the bound may have fallen by much."""
MOST_STAGES = 64
"""Stages of a run whose costs are kept apart. Later ones count as part of the last."""

RunKey = tuple[TenantId, ApplicationId, str]


@dataclass(slots=True, eq=False)
class TrackedRun:
    """An open run, or one that is over. A `closing` run takes no further request and ends with its last open one.

    `cost` is in KV token-time; what the engine reports after the run's end is added. A stage is over when none of the
    run's requests is open; `stages` is what the run had cost at each of these moments. `aborted` says that one of its
    requests was aborted after it had been released into the order. `led_elsewhere`, of one that is over: another
    sidecar of the pool had it first.
    """

    id: RunId
    tenant: TenantId
    application: ApplicationConfig
    key: RunKey | None
    opened: Seconds
    last_activity: Seconds
    predicted_cost: KVTokenTime | None = None
    open_requests: int = 0
    closing: bool = False
    stages: list[KVTokenTime] = field(default_factory=list)
    cost: KVTokenTime = 0.0
    aborted: bool = False
    led_elsewhere: bool = False

    @property
    def took(self) -> Seconds:
        """Seconds from the arrival of its first request to the end of its last one so far."""
        return self.last_activity - self.opened

    @property
    def name(self) -> str | None:
        """The id that its client gave it. None for a run of one request without an id."""
        return None if self.key is None else self.key[2]


@dataclass(slots=True)
class _Share:
    """The number of a tenant's open runs, and its idle ones in the order in which they became idle."""

    open: int = 0
    idle: OrderedDict[RunId, TrackedRun] = field(default_factory=OrderedDict)


class _IdleRuns:
    """Idle runs in the order in which they expire, by timeout: runs of one timeout expire as they became idle."""

    def __init__(self) -> None:
        self._by_timeout: dict[Seconds, OrderedDict[RunId, TrackedRun]] = {}

    def add(self, run: TrackedRun) -> None:
        self._by_timeout.setdefault(run.application.run.idle_timeout_seconds, OrderedDict())[run.id] = run

    def discard(self, run: TrackedRun) -> None:
        timeout = run.application.run.idle_timeout_seconds
        if (idle := self._by_timeout.get(timeout)) is not None:
            idle.pop(run.id, None)
            if not idle:
                del self._by_timeout[timeout]

    def expired(self, now: Seconds) -> Iterator[TrackedRun]:
        """The runs that have been idle for their timeout. The caller discards each before it takes the next."""
        for timeout, idle in list(self._by_timeout.items()):
            while idle and now - (run := next(iter(idle.values()))).last_activity >= timeout:
                yield run


Hear = Callable[[TrackedRun, Seconds], None]


class RunTable:
    """`opened` and `ended` are called for the order as a run opens and ends; `on_ended` is called for each that is
    over, `on_client_ends` for each that its client ends. `open_elsewhere` says whether a run is open in other sidecars;
    `end_elsewhere` ends one that is open there alone.
    """

    def __init__(self, opened: Hear, ended: Hear, maximum: int = MAXIMUM_OPEN_RUNS) -> None:
        self._opened = opened
        self._ended = ended
        self._runs: dict[RunId, TrackedRun] = {}
        self.on_ended: Callable[[TrackedRun], None] = lambda run: None
        self.on_client_ends: Callable[[TrackedRun], None] = lambda run: None
        self.open_elsewhere: Callable[[RunKey], bool] = lambda key: False
        self.end_elsewhere: Callable[[RunKey], None] = lambda key: None
        self.maximum = maximum
        self.most_of_pool: int | None = None
        """The bound where the pool's other sidecars know of the runs."""
        self._by_key: dict[RunKey, TrackedRun] = {}
        self._shares: dict[TenantId, _Share] = {}
        self._idle = _IdleRuns()
        self._ranking: Ranking[TenantId] = Ranking()
        self._weights = 0.0
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def open(self) -> Iterable[TrackedRun]:
        """The open runs in the order in which they opened."""
        return self._runs.values()

    def reweight(self, weights: Mapping[TenantId, float]) -> None:
        """Set the weights. A tenant without one has weight 1."""
        self._ranking.reweight(weights)
        self._weights = sum(map(self._ranking.weight, self._shares))

    def is_open(self, tenant: TenantId, application: ApplicationId, run: str | None, now: Seconds) -> bool:
        """Whether a request that comes now belongs to a run that had one before."""
        if run is None:
            return False
        key = (tenant, application, run)
        tracked = self._by_key.get(key)
        return self.open_elsewhere(key) if tracked is None else not self._spent(tracked, now)

    def enter(
        self,
        tenant: TenantId,
        application: ApplicationConfig,
        run: str | None,
        now: Seconds,
        predicted_cost: KVTokenTime | None = None,
    ) -> TrackedRun:
        """Count a new request in its run, until `leave`. Returns the run."""
        key = None if run is None else (tenant, application.id, run)
        tracked = None if key is None else self._by_key.get(key)
        if tracked is not None and self._spent(tracked, now):
            self._close(tracked, now)
            tracked = None
        if tracked is None:
            tracked = TrackedRun(self._next(), tenant, application, key, now, now, predicted_cost)
            self._open(tracked, now)
        self._set_idle(tracked, idle=False)
        tracked.open_requests += 1
        tracked.last_activity = now
        self._keep_bound(now)
        return tracked

    def leave(self, run: TrackedRun, now: Seconds, *, ends: bool = False) -> None:
        """Note that one of the run's requests is over."""
        run.open_requests -= 1
        run.last_activity = now
        if run.open_requests == 0 and len(run.stages) < MOST_STAGES:
            run.stages.append(run.cost)
        if ends:
            self.on_client_ends(run)
        if ends or run.key is None:
            self._close(run, now)
        elif run.open_requests == 0:
            if run.closing:
                self._end(run, now)
            else:
                self._set_idle(run, idle=True)
                self._keep_bound(now)

    def end(self, tenant: TenantId, application: ApplicationId, run: str, now: Seconds) -> bool:
        """End a run for its client. Returns False if no such run is open."""
        key = (tenant, application, run)
        tracked = self._by_key.get(key)
        if tracked is None:
            self.end_elsewhere(key)
            return self.open_elsewhere(key)
        self.on_client_ends(tracked)
        self._close(tracked, now)
        return True

    def touch(self, run: TrackedRun, now: Seconds) -> None:
        """Note that a request of an open run was served elsewhere."""
        run.last_activity = max(run.last_activity, now)
        if not (run.open_requests or run.closing):
            self._set_idle(run, idle=False)
            self._set_idle(run, idle=True)

    def close(self, run: TrackedRun, now: Seconds) -> None:
        """End an open run: at once, or when its open requests are over."""
        if not run.closing:
            self._close(run, now)

    def expire(self, now: Seconds) -> None:
        """End the runs that have been idle for their timeout. The cost grows with these, not with all idle ones."""
        for run in self._idle.expired(now):
            self._close(run, now)
        self._keep_bound(now)

    def _spent(self, run: TrackedRun, now: Seconds) -> bool:
        limits = run.application.run
        too_old = now - run.opened >= limits.maximum_age_seconds
        too_idle = run.open_requests == 0 and now - run.last_activity >= limits.idle_timeout_seconds
        too_costly = limits.maximum_cost is not None and run.cost >= limits.maximum_cost
        return too_old or too_idle or too_costly

    def _next(self) -> RunId:
        self._sequence += 1
        return RunId(f"run-{self._sequence}")

    def _open(self, run: TrackedRun, now: Seconds) -> None:
        self._runs[run.id] = run
        self._opened(run, now)
        if run.tenant not in self._shares:
            self._shares[run.tenant] = _Share()
            self._weights += self._ranking.weight(run.tenant)
        self._count(run.tenant, 1)
        if run.key is not None:
            self._by_key[run.key] = run

    def _close(self, run: TrackedRun, now: Seconds) -> None:
        if run.key is not None and self._by_key.get(run.key) is run:
            del self._by_key[run.key]
        self._set_idle(run, idle=False)
        run.closing = True
        if run.open_requests == 0:
            self._end(run, now)

    def _end(self, run: TrackedRun, now: Seconds) -> None:
        del self._runs[run.id]
        self._ended(run, now)
        self._count(run.tenant, -1)
        self.on_ended(run)

    def _keep_bound(self, now: Seconds) -> None:
        maximum = self.maximum if self.most_of_pool is None else min(self.maximum, self.most_of_pool)
        for _ in range(AT_A_TIME):
            if len(self) <= maximum or (most := self._ranking.largest()) is None:
                return
            share = self._shares[most]
            if share.open * self._weights <= maximum * self._ranking.weight(most):
                return
            self._close(next(iter(share.idle.values())), now)

    def _set_idle(self, run: TrackedRun, *, idle: bool) -> None:
        share = self._shares[run.tenant]
        if idle:
            share.idle[run.id] = run
            self._idle.add(run)
        else:
            share.idle.pop(run.id, None)
            self._idle.discard(run)
        self._rank(run.tenant)

    def _count(self, tenant: TenantId, change: int) -> None:
        share = self._shares[tenant]
        share.open += change
        if share.open:
            self._rank(tenant)
        else:
            del self._shares[tenant]
            self._ranking.drop(tenant)
            self._weights = self._weights - self._ranking.weight(tenant) if self._shares else 0.0

    def _rank(self, tenant: TenantId) -> None:
        """Rank the tenant if it has a run to lose."""
        share = self._shares[tenant]
        if share.idle:
            self._ranking.put(tenant, share.open)
        else:
            self._ranking.drop(tenant)
