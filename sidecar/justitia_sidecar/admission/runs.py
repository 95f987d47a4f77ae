"""Which runs are open. A run is keyed (tenant, application, id); a request without an id is a run of its own.

A run ends when the client says so (as soon as its open requests are done), when it has been idle for its
timeout, or, at its next request, when it has passed its maximum age or cost: then a new one begins under the
same id.

The number of open runs is bounded, and tenants share the bound by weight. Beyond it ends the longest idle run of the
tenant with the most open runs for its weight, of those that have an idle one. A tenant's due is the bound x its weight
/ (sum of the weights of those that have runs open); a tenant within it loses none. Runs with open requests stay:
where nobody above its due has an idle one, the bound is passed, until one of them is idle.

This class decides and keeps the policy informed (`run_arrived`, `run_ended`); it has no clock of its own.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from justitia_api.config import ApplicationConfig
from justitia_scheduling.core.model import Run
from justitia_scheduling.core.policy import Policy
from justitia_sidecar.limits.room import Ranking
from justitia_sidecar.request.recognition import application_id
from justitia_vocabulary.units import ApplicationId, KVTokenTime, RunId, Seconds, TenantId

MAXIMUM_OPEN_RUNS = 100_000
MOST_STAGES = 64
"""Of a run, whose costs are told apart; what comes later belongs to the last one."""

RunKey = tuple[TenantId, ApplicationId, str]


@dataclass(slots=True, eq=False)
class TrackedRun:
    """`closing` runs take no further request and end with their last open one.

    A stage is over when none of the run's requests is open; `stages` is what the run had cost by then. `cost` and
    `aborted` are those of a run that is over, and what the engine tells later is added.
    """

    id: RunId
    application: ApplicationConfig
    key: RunKey | None
    opened: Seconds
    last_activity: Seconds
    open_requests: int = 0
    closing: bool = False
    stages: list[KVTokenTime] = field(default_factory=list)
    cost: KVTokenTime = 0.0
    aborted: bool = False

    @property
    def took(self) -> Seconds:
        """From its first request until the last one was over, so far."""
        return self.last_activity - self.opened

    @property
    def name(self) -> str | None:
        """As its client gave it."""
        return None if self.key is None else self.key[2]


@dataclass(slots=True)
class _Share:
    """A tenant's open runs; `idle` are in the order in which they became so."""

    open: int = 0
    idle: OrderedDict[RunId, TrackedRun] = field(default_factory=OrderedDict)


class RunTable:
    """`on_ended` hears of each run that is over."""

    def __init__(self, policy: Policy, maximum: int = MAXIMUM_OPEN_RUNS) -> None:
        self.policy = policy
        self.on_ended: Callable[[TrackedRun], None] = lambda run: None
        self.maximum = maximum
        self._by_key: dict[RunKey, TrackedRun] = {}
        self._shares: dict[TenantId, _Share] = {}
        self._ranking = Ranking()
        self._weights = 0.0
        self._sequence = 0

    def __len__(self) -> int:
        return len(self.policy.runs)

    def reweight(self, weights: Mapping[TenantId, float]) -> None:
        """A tenant that is not among them has 1."""
        self._ranking.reweight(weights)
        self._weights = sum(map(self._ranking.weight, self._shares))

    def is_open(self, tenant: TenantId, application: ApplicationId, run: str | None, now: Seconds) -> bool:
        """Whether a request that comes now belongs to a run that had one before."""
        tracked = None if run is None else self._by_key.get((tenant, application, run))
        return tracked is not None and not self._spent(tracked, now)

    def enter(
        self,
        tenant: TenantId,
        application: ApplicationConfig,
        run: str | None,
        now: Seconds,
        predicted_cost: KVTokenTime | None = None,
    ) -> TrackedRun:
        """A request begins; returns its run, which counts it until `leave`."""
        name = application_id(application)
        key = None if run is None else (tenant, name, run)
        tracked = None if key is None else self._by_key.get(key)
        if tracked is not None and self._spent(tracked, now):
            self._close(tracked, now)
            tracked = None
        if tracked is None:
            tracked = self._open(Run(self._next(), tenant, name, predicted_cost), key, application, now)
        self._set_idle(tracked, idle=False)
        tracked.open_requests += 1
        tracked.last_activity = now
        self._keep_bound(now)
        return tracked

    def leave(self, run: TrackedRun, now: Seconds, *, ends: bool = False) -> None:
        """One of the run's requests is over."""
        run.open_requests -= 1
        run.last_activity = now
        if run.open_requests == 0 and len(run.stages) < MOST_STAGES:
            run.stages.append(self.policy.runs[run.id].kv_token_time)
        if ends or run.key is None:
            self._close(run, now)
        elif run.open_requests == 0:
            if run.closing:
                self._ended(run, now)
            else:
                self._set_idle(run, idle=True)
                self._keep_bound(now)

    def end(self, tenant: TenantId, application: ApplicationId, run: str, now: Seconds) -> bool:
        """The client ends a run. False if no such run is open."""
        tracked = self._by_key.get((tenant, application, run))
        if tracked is None:
            return False
        self._close(tracked, now)
        return True

    def expire(self, now: Seconds) -> None:
        """End the runs that have been idle for their timeout."""
        idle = [run for share in self._shares.values() for run in share.idle.values()]
        for run in idle:
            if now - run.last_activity >= run.application.run.idle_timeout_seconds:
                self._close(run, now)

    def _spent(self, run: TrackedRun, now: Seconds) -> bool:
        limits = run.application.run
        too_old = now - run.opened >= limits.maximum_age_seconds
        too_idle = run.open_requests == 0 and now - run.last_activity >= limits.idle_timeout_seconds
        too_costly = limits.maximum_cost is not None and self.policy.runs[run.id].kv_token_time >= limits.maximum_cost
        return too_old or too_idle or too_costly

    def _next(self) -> RunId:
        self._sequence += 1
        return RunId(f"run-{self._sequence}")

    def _open(self, run: Run, key: RunKey | None, application: ApplicationConfig, now: Seconds) -> TrackedRun:
        opened = TrackedRun(run.id, application, key, now, now)
        self.policy.run_arrived(run, now)
        if run.tenant not in self._shares:
            self._shares[run.tenant] = _Share()
            self._weights += self._ranking.weight(run.tenant)
        self._count(run.tenant, 1)
        if key is not None:
            self._by_key[key] = opened
        return opened

    def _close(self, run: TrackedRun, now: Seconds) -> None:
        if run.key is not None and self._by_key.get(run.key) is run:
            del self._by_key[run.key]
        self._set_idle(run, idle=False)
        run.closing = True
        if run.open_requests == 0:
            self._ended(run, now)

    def _ended(self, run: TrackedRun, now: Seconds) -> None:
        opened = self.policy.runs[run.id]
        run.cost, run.aborted = opened.kv_token_time, opened.aborted
        self.policy.run_ended(run.id, now)
        self._count(opened.run.tenant, -1)
        self.on_ended(run)

    def _keep_bound(self, now: Seconds) -> None:
        while len(self) > self.maximum and (most := self._ranking.largest()) is not None:
            share = self._shares[most]
            if share.open * self._weights <= self.maximum * self._ranking.weight(most):
                return
            self._close(next(iter(share.idle.values())), now)

    def _set_idle(self, run: TrackedRun, *, idle: bool) -> None:
        tenant = self.policy.runs[run.id].run.tenant
        if idle:
            self._shares[tenant].idle[run.id] = run
        else:
            self._shares[tenant].idle.pop(run.id, None)
        self._rank(tenant)

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
        """Who can lose a run is ranked."""
        share = self._shares[tenant]
        if share.idle:
            self._ranking.put(tenant, share.open)
        else:
            self._ranking.drop(tenant)
