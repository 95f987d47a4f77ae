"""Sends requests on with a ticket, where the order is kept inside the engine.

A few requests of each tenant cross at a time (`crossing.py`).

The plug-in says when the engine has begun with a request, at its first sequence. Until then the request counts as
queued: so the bounds of the pool's and the tenants' queues hold, and a tenant at its limit of running requests has its
others held back here. Service, gate and order are the plug-in's, as it last reported them (`EngineChannel.state`). The
sidecar recognises runs, and counts their cost for their own limits.

Tokens are counted by what an answer shows, and by what the plug-in reports of each sequence once it is over
(`accounts.py`). Its report is exact, and comes for aborted requests too. Both are cumulative: the larger counts. A
run's cost is what the plug-in reports of its sequences; without a report, what the answers show.

If an answer showed nothing and the plug-in cannot report, the request is charged what the engine should have done. The
plug-in cannot report while it is not connected or has no policy, if the request was in another engine process, or if it
reports nothing for `SAID_WITHIN`. A report that comes later replaces the estimate.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

from justitia_api.config import PoolConfig
from justitia_api.status import GateStatus
from justitia_channel import messages
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.model import kv_token_time
from justitia_scheduling.core.step_time import PRIOR
from justitia_sidecar.admission.accounts import EngineAccount, EngineAccounts, PresumedWork
from justitia_sidecar.admission.admission import gate_of
from justitia_sidecar.admission.books import Books
from justitia_sidecar.admission.crossing import Crossing
from justitia_sidecar.admission.estimate import presumed
from justitia_sidecar.admission.pool_runs import PoolRuns, pool_name
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import RunTable, TrackedRun
from justitia_sidecar.admission.stages import Event, Stage
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.view import EngineView
from justitia_sidecar.pool.sharing import Sharing
from justitia_vocabulary.units import ApplicationId, KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason

SAID_WITHIN: Seconds = 10.0
"""The time after a request's end in which its report must come. It takes a step, and the 50 ms for which the plug-in
collects messages.
"""


class Inside:
    """Keeps bounds and books for an engine that keeps the order itself."""

    held: Tokens = 0

    def __init__(
        self, config: PoolConfig, channel: EngineChannel, sharing: Sharing, clock: Callable[[], Seconds]
    ) -> None:
        self.engine = EngineView()
        self._channel = channel
        self._sharing = sharing
        self._clock = clock
        self._accounts = EngineAccounts()
        self._crossing = Crossing()
        self._queue: OrderedDict[RequestId, TrackedRequest] = OrderedDict()
        """Requests that are released and not sent, because the engine does not answer."""
        runs = RunTable(self._run_opened, self._run_ended)
        self._pool_runs = PoolRuns(sharing, runs.touch, runs.close)
        runs.on_client_ends = self._pool_runs.ended_by_client
        runs.open_elsewhere, runs.end_elsewhere = self._pool_runs.open_elsewhere, self._pool_runs.end_elsewhere
        self.books = Books(config, runs, waits=self.waits, held_up=self._held_up, pool_limits=sharing.limits)
        limits = sharing.limits
        limits.demand, limits.waiting, limits.on_slots = self.books.demand, self.books.waiting, self._has_slots
        channel.hear = self._heard

    @property
    def service(self) -> Mapping[TenantId, float]:
        return self._channel.state.service

    @property
    def application_service(self) -> Mapping[ApplicationId, float]:
        return self._channel.state.application_service

    @property
    def unit(self) -> str:
        return self._channel.state.unit

    @property
    def gate(self) -> GateStatus | None:
        return gate_of(self._channel.state.policy)

    @property
    def step_time(self) -> StepTime | None:
        """The step time that the plug-in last reported."""
        return self._channel.state.step_time

    # What a request goes through.

    def enter(self, request: TrackedRequest, now: Seconds) -> None:
        self.books.enter(request)
        self._release(request.tenant)

    def pump(self, now: Seconds) -> None:
        for tenant in list(self.books.to_release):
            self._release(tenant)
        while self._queue and self.engine.ready:
            _, request = self._queue.popitem(last=False)
            self._pass_on(request, now)

    def leave(self, request: TrackedRequest, now: Seconds, *, completed: bool, ends_run: bool = False) -> None:
        self._crossing.over(request)
        self._queue.pop(request.id, None)
        if request.stage is Stage.SENT:
            self.books.begin(request)
        account = self._accounts.get(request.id)
        if account is not None and not self._says(account):
            self._cost_is(account, _cost_as_shown(request))
        if (forgotten := self._accounts.left(request.id)) is not None:
            self._nothing_more_is_said(forgotten)
        self.books.leave(request, now, completed=completed, ends_run=ends_run)
        self._release(request.tenant)
        self.pump(now)

    def waits(self, request: TrackedRequest) -> bool:
        """Whether the engine has not begun with the request."""
        if request.stage is not Stage.SENT:
            return request.stage in (Stage.HELD, Stage.QUEUED)
        account = self._accounts.get(request.id)
        return account is not None and self._channel.reporting and account.gaps == self._channel.gaps

    # What the engine did.

    def counted(
        self, request: TrackedRequest, prompt_tokens: Tokens, produced: Tokens, now: Seconds, cached: Tokens = 0
    ) -> None:
        if produced:
            request.account.raise_to(prompt_tokens, produced)
            self._started(request, now)

    def refused_by_engine(self, request: TrackedRequest, now: Seconds) -> None:
        self._started(request, now)

    def abandoned(self, request: TrackedRequest, now: Seconds) -> Tokens:
        """Wait for the plug-in's report. If it cannot report, charge an estimate and return its output."""
        account = self._accounts.get(request.id)
        if account is None or account.complete or self.waits(request) or self._presumed_to_wait(request):
            return 0
        since = request.timing.sent if account.begun is None else account.begun
        running, resident = self.books.in_engine, self.books.resident
        prompt, produced = presumed(request, since, now, self.step_time or PRIOR, running=running, resident=resident)
        account.estimate = PresumedWork(prompt, produced, now + SAID_WITHIN)
        return 0 if self._says(account) else self._count_estimate(account)

    def engine_told(self, view: EngineView, now: Seconds) -> None:
        self.engine = view
        self.pump(now)

    def tick(self, now: Seconds) -> None:
        for tenant in self._crossing.look(now):
            self._release(tenant)
        self._sharing.limits.look(now)
        self.books.runs.most_of_pool = self._sharing.most_runs
        self.books.runs.expire(now)
        self.pump(now)
        for account in self._accounts.forget_all_but(self._channel.peer):
            self._nothing_more_is_said(account)
        for account in self._accounts.over:
            estimate = account.estimate
            if estimate and not estimate.counted and (now >= estimate.due or not self._says(account)):
                self._nothing_more_is_said(account)
        if self._channel.connected:
            self._tell_late(now)

    def next_look(self, now: Seconds) -> Seconds | None:
        return now if self.books.to_release else None

    def reconfigure(self, config: PoolConfig, now: Seconds) -> None:
        """Put a configuration into effect. The channel sends it to the plug-in."""
        self.books.configure(config)
        for name in list(self.books.load):
            self._release(name)
        self.pump(now)

    # What people ask.

    def waiting(self, now: Seconds) -> Iterator[tuple[TrackedRequest, WaitingReason]]:
        for request in self._queue.values():
            reason = WaitingReason.BEHIND_OTHERS if self.engine.ready else WaitingReason.ENGINE_UNAVAILABLE
            yield request, reason
        for tenant, load in self.books.load.items():
            reason = WaitingReason.BEHIND_OTHERS if self._held_up(tenant) else WaitingReason.TENANT_LIMIT
            for request in load.held:
                yield request, reason

    def order_key(self, request: TrackedRequest) -> None:
        """None: the plug-in orders."""

    def expected_tokens(self, request: TrackedRequest) -> None:
        """None: the engine expects its tokens."""

    # How.

    def _run_name(self, run: TrackedRun) -> RunId:
        """The run's name in the engines, which may outlive this process."""
        return pool_name(run) or RunId(f"{self._channel.instance}/{run.id}")

    def _run_opened(self, run: TrackedRun, now: Seconds) -> None:
        self._pool_runs.opened(run)

    def _run_ended(self, run: TrackedRun, now: Seconds) -> None:
        self._pool_runs.ended(run)
        if run.key is None:
            self._channel.send(messages.RunEnded(self._run_name(run)))

    def _held_up(self, tenant: TenantId) -> bool:
        """Whether the tenant has to wait for what crosses. Nothing is held back while the plug-in does not say what
        arrives.
        """
        return self._channel.reporting and self._crossing.full(tenant)

    def _release(self, tenant: TenantId) -> None:
        for request in self.books.release(tenant):
            self._crossing.begins(request)
            self._queue[request.id] = request

    def _has_slots(self, tenant: TenantId) -> None:
        """The tenant may have more requests running than before."""
        self._release(tenant)
        self.pump(self._clock())

    def _pass_on(self, request: TrackedRequest, now: Seconds) -> None:
        self._tell(request, now)
        ticketed = self._channel.connected
        self._accounts.opened(
            EngineAccount(request, self._channel.peer, self._channel.gaps if ticketed else None, ticketed)
        )
        self._crossing.sent(request, now)
        self.books.send(request, now)
        request.observer.admitted(request)

    def _tell(self, request: TrackedRequest, now: Seconds) -> None:
        run, sequences, boost = request.run, request.asks.sequences, request.boost_left(now)
        name = self._run_name(run)
        ticket = messages.Ticket(
            request.id, run.tenant, run.application.id, name, sequences, run.predicted_cost, boosted_for=boost
        )
        self._channel.send(ticket)

    def _tell_late(self, now: Seconds) -> None:
        """Send the tickets of requests that were sent while the plug-in was away: their tenants pay for them from now
        on.
        """
        for account in self._accounts.open:
            if not account.ticketed and account.instance == self._channel.peer:
                account.ticketed = True
                self._tell(account.request, now)

    def _started(self, request: TrackedRequest, now: Seconds) -> None:
        if request.stage is Stage.SENT:
            self._crossing.over(request)
            self.books.begin(request)
            request.observer.begun(request)
            request.advance(Event.START)
            self._release(request.tenant)
            self.pump(now)

    def _heard(self, message: messages.Arrived | messages.Admitted | messages.Closed) -> None:
        if isinstance(message, messages.Closed):
            self._close(message)
        elif (request := self.books.requests.get(RequestId(message.key))) is not None:
            now = self._clock()
            if isinstance(message, messages.Admitted):
                account = self._accounts.get(request.id)
                if account is not None and account.begun is None:
                    account.begun = now
                self._started(request, now)
            elif self._crossing.over(request):
                self._release(request.tenant)
                self.pump(now)

    def _close(self, message: messages.Closed) -> None:
        """Take the report of a sequence that is over. Its request may have been over before."""
        account = self._accounts.heard(message)
        if account is None:
            return
        request = account.request
        if account.complete and account.estimate is not None and account.estimate.counted:
            request.account.prompt, request.account.produced = account.prompt_tokens, account.produced
        else:
            request.account.raise_to(account.prompt_tokens, account.produced)
        self._cost_is(account, sum(map(_cost, account.closed.values())), self._kept_of(message))
        if request.stage is Stage.OVER:
            request.observer.counted(request)

    def _cost_is(self, account: EngineAccount, cost: KVTokenTime, context: Tokens = 0) -> None:
        """Charge the run for the request up to `cost` in all. What it has been charged already stays. The engine has so
        many tokens of its `context` in its cache.
        """
        more = max(0.0, cost - account.cost)
        account.cost += more
        account.request.run.cost += more
        self._pool_runs.costs(account.request.run, more, context)

    def _kept_of(self, closed: messages.Closed) -> Tokens:
        """The tokens of the sequence that the engine's prefix cache has."""
        read = min(closed.prompt_tokens, closed.cached + closed.read)
        return read + closed.produced if self.engine.prefix_cache else 0

    # What the engine cannot say.

    def _says(self, account: EngineAccount) -> bool:
        """Whether the engine process that has the request can report."""
        return self._channel.reporting and account.instance == self._channel.peer

    def _presumed_to_wait(self, request: TrackedRequest) -> bool:
        """Whether the request waits by vLLM's own count: without tickets vLLM serves in the order of arrival."""
        newer = 0
        for account in self._accounts.newest_first:
            if newer >= self.engine.waiting:
                break
            if account.request is request:
                return True
            if account.request.stage is Stage.SENT:
                newer += account.request.asks.sequences
        return False

    @staticmethod
    def _count_estimate(account: EngineAccount) -> Tokens:
        """Count the estimate. Returns its output tokens beyond those that were known."""
        estimate, tokens = account.estimate, account.request.account
        if estimate is None or estimate.counted:
            return 0
        estimate.counted, before = True, tokens.produced
        tokens.raise_to(estimate.prompt_tokens, estimate.produced)
        return tokens.produced - before

    def _nothing_more_is_said(self, account: EngineAccount) -> None:
        """Settle the account of a request that is over and that the engine will not report."""
        request = account.request
        if account.estimate is not None and not account.estimate.counted:
            request.observer.estimated(request, self._count_estimate(account))
            request.observer.counted(request)
        self._cost_is(account, _cost_as_shown(request))


def _cost(closed: messages.Closed) -> KVTokenTime:
    return kv_token_time(closed.prompt_tokens - closed.cached, closed.produced)


def _cost_as_shown(request: TrackedRequest) -> KVTokenTime:
    """The cost of a request by what its answer shows, as if its sequences were alike."""
    account, asks = request.account, request.asks
    each = account.produced / asks.sequences
    return account.produced * (account.prompt / asks.prompts + (each + 1) / 2)
