"""Where the order is kept inside the engine: requests go on with a ticket, and wait there.

Of each tenant a few at a time are on their way (`crossing.py`).

The engine's scheduler says when it has begun with a request, at its first sequence. Until then the request counts as
queued, so that the bounds of the pool's and the tenants' queues hold, and a tenant at its limit of running requests
keeps the others here. Service, gate and order are the engine's, as it last told them (`EngineChannel.state`); here runs
are recognised, and their cost is counted for their own limits.

Tokens are counted by what an answer shows and by what the engine says of each sequence as soon as it is over
(`accounts.py`). What it says is exact, and comes for aborted requests too. Both are cumulative: the larger counts.
A run's cost is what the engine says of its sequences; where it says nothing, what the answers show.

Where a request showed nothing and the engine cannot say what it did, because its scheduler is not connected, has no
policy, was another process, or says nothing for `SAID_WITHIN`, what it should have done is counted. If it says more or
less afterwards, that holds.
"""

from collections.abc import Callable, Mapping

from justitia_api.config import PoolConfig
from justitia_api.status import GateStatus
from justitia_channel import messages as channel
from justitia_scheduling.core.cost import KVTokenTimeCost, StepTime
from justitia_scheduling.core.model import kv_token_time
from justitia_scheduling.core.opened import OpenRun
from justitia_scheduling.policies.fcfs import FCFS
from justitia_sidecar.admission.accounts import Account, Accounts, Estimate
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.crossing import Crossing
from justitia_sidecar.admission.estimate import presumed
from justitia_sidecar.admission.ticket import Stage, Ticket
from justitia_sidecar.engine.channel import EngineChannel
from justitia_vocabulary.units import KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason

SAID_WITHIN: Seconds = 10.0
"""After the end of a request. It takes a step and the 50 ms for which the engine collects messages."""


class PassedOn(FCFS):
    """The books of what was passed on. The engine hears of the end of each run."""

    def __init__(self, engine: EngineChannel) -> None:
        super().__init__(KVTokenTimeCost())
        self._engine = engine

    def name(self, run: RunId) -> RunId:
        """The run's name to the engine, which may outlive this process."""
        return RunId(f"{self._engine.instance}/{run}")

    def on_run_ended(self, run: OpenRun, now: Seconds) -> None:
        super().on_run_ended(run, now)
        self._engine.send(channel.RunEnded(self.name(run.id)))


class EngineAdmission(Admission):
    """Bounds and books in front of an engine that keeps the order itself."""

    _held_up_by = WaitingReason.BEHIND_OTHERS

    def __init__(self, config: PoolConfig, engine: EngineChannel, clock: Callable[[], Seconds]) -> None:
        self._passed_on = PassedOn(engine)
        self._crossing = Crossing()
        super().__init__(config, self._passed_on)
        self._channel = engine
        self._clock = clock
        self._accounts = Accounts()
        engine.hear = self._heard

    @property
    def service(self) -> Mapping[TenantId, float]:
        return self._channel.state.service

    @property
    def unit(self) -> str:
        return self._channel.state.unit

    @property
    def gate(self) -> GateStatus | None:
        policy = self._channel.state.policy
        if policy.burst is None or policy.in_engine is None:
            return None
        return GateStatus(burst=policy.burst, in_engine=policy.in_engine)

    def waits(self, ticket: Ticket) -> bool:
        """Whether the engine has not begun with the request. False where that cannot be known."""
        if ticket.stage is not Stage.SENT:
            return super().waits(ticket)
        account = self._accounts.get(ticket.id)
        return account is not None and self._channel.telling and account.gaps == self._channel.gaps

    def counted(
        self, ticket: Ticket, prompt_tokens: Tokens, produced: Tokens, now: Seconds, cached: Tokens = 0
    ) -> None:
        if produced:
            self._count(ticket, prompt_tokens, produced)
            self._started(ticket, now)

    def abandoned(self, ticket: Ticket, now: Seconds) -> Tokens:
        """The engine will say. Where it cannot, it is estimated; returns the estimate of the output then."""
        account = self._accounts.get(ticket.id)
        if account is None or account.complete or self.waits(ticket) or self._presumed_to_wait(ticket):
            return 0
        since = ticket.sent if account.begun is None else account.begun
        running, resident = len(self.policy.running), self._resident
        prompt, produced = presumed(ticket, since, now, self._step_time, running=running, resident=resident)
        account.estimate = Estimate(prompt, produced, now + SAID_WITHIN)
        return 0 if self._says(account) else self._count_estimate(account)

    def leave(self, ticket: Ticket, now: Seconds, *, completed: bool, ends_run: bool = False) -> None:
        self._crossing.over(ticket)
        if ticket.stage is Stage.SENT:
            self._count_as_running(ticket)
        account = self._accounts.get(ticket.id)
        if account is not None and not self._says(account):
            self._cost_is(account, _cost_as_shown(ticket))
        if (forgotten := self._accounts.left(ticket.id)) is not None:
            self._nothing_more_is_said(forgotten)
        super().leave(ticket, now, completed=completed, ends_run=ends_run)

    def tick(self, now: Seconds) -> None:
        for tenant in self._crossing.look(now):
            self._release(tenant, now)
        super().tick(now)
        for account in self._accounts.forget_all_but(self._channel.peer):
            self._nothing_more_is_said(account)
        for account in self._accounts.over:
            estimate = account.estimate
            if estimate and not estimate.counted and (now >= estimate.due or not self._says(account)):
                self._nothing_more_is_said(account)
        if self._channel.connected:
            self._tell_late()

    def _held_up(self, tenant: TenantId) -> bool:
        """Where the engine does not say what has arrived, nothing is kept back."""
        return self._channel.telling and self._crossing.full(tenant)

    def _released(self, ticket: Ticket) -> None:
        self._crossing.begins(ticket)

    def _obstacle(self, ticket: Ticket, now: Seconds) -> WaitingReason | None:
        return None if self.engine.ready else WaitingReason.ENGINE_UNAVAILABLE

    def _admit(self, ticket: Ticket, now: Seconds) -> None:
        self._tell(ticket)
        told = self._channel.connected
        self._accounts.opened(Account(ticket, self._channel.peer, self._channel.gaps if told else None, told))
        self._crossing.sent(ticket, now)
        self._send(ticket, now)

    def _tell(self, ticket: Ticket) -> None:
        run = self.policy.runs[ticket.run.id].run
        name = self._passed_on.name(run.id)
        told = channel.Ticket(ticket.id, run.tenant, run.application, name, ticket.sequences, run.predicted_cost)
        self._channel.send(told)

    def _tell_late(self) -> None:
        """Of what was sent while the engine's scheduler was away: it is of its tenant from now on."""
        for account in self._accounts.open:
            if not account.told and account.instance == self._channel.peer:
                account.told = True
                self._tell(account.ticket)

    def _started(self, ticket: Ticket, now: Seconds) -> None:
        if ticket.stage is Stage.SENT:
            self._crossing.over(ticket)
            self._count_as_running(ticket)
            ticket.on_begun()
        super()._started(ticket, now)

    def _heard(self, message: channel.Arrived | channel.Admitted | channel.Closed) -> None:
        if isinstance(message, channel.Closed):
            self._close(message)
        elif (ticket := self.tickets.get(RequestId(message.key))) is not None:
            now = self._clock()
            if isinstance(message, channel.Admitted):
                account = self._accounts.get(ticket.id)
                if account is not None and account.begun is None:
                    account.begun = now
                self._started(ticket, now)
            elif self._crossing.over(ticket):
                self._release(ticket.tenant, now)
                self.pump(now)

    def _close(self, message: channel.Closed) -> None:
        """A sequence is over in the engine; its request may have been over before."""
        account = self._accounts.heard(message)
        if account is None:
            return
        ticket = account.ticket
        if account.complete and account.estimate is not None and account.estimate.counted:
            ticket.prompt_tokens, ticket.produced = account.prompt_tokens, account.produced
        else:
            self._count(ticket, account.prompt_tokens, account.produced)
        self._cost_is(account, sum(map(_cost, account.closed.values())))
        if ticket.stage is Stage.OVER:
            ticket.on_counted()

    @staticmethod
    def _count(ticket: Ticket, prompt_tokens: Tokens, produced: Tokens) -> None:
        """What was known of the prompt before anything was counted is not the engine's count."""
        before = ticket.prompt_tokens if ticket.counted else 0
        if prompt_tokens or produced:
            ticket.prompt_tokens, ticket.prompt_exact = max(before, prompt_tokens), True
            ticket.produced = max(ticket.produced, produced)
            ticket.counted = True

    def _cost_is(self, account: Account, cost: KVTokenTime) -> None:
        """Its run is charged so much for the request in all, or what it has been charged already."""
        more = max(0.0, cost - account.cost)
        account.cost += more
        run = self.policy.runs.get(account.ticket.run.id)
        if run is None:
            account.ticket.run.cost += more
        else:
            run.kv_token_time += more

    # What the engine cannot say.

    def _says(self, account: Account) -> bool:
        """Whether the engine is there that is to say what it did."""
        return self._channel.telling and account.instance == self._channel.peer

    @property
    def _step_time(self) -> StepTime:
        """As the engine's scheduler last told it."""
        return self._channel.state.step_time or self.fit.step_time

    def _presumed_to_wait(self, ticket: Ticket) -> bool:
        """By vLLM's own count of what waits: without tickets it serves by arrival."""
        newer = 0
        for account in self._accounts.newest_first:
            if newer >= self.engine.waiting:
                break
            if account.ticket is ticket:
                return True
            if account.ticket.stage is Stage.SENT:
                newer += account.ticket.sequences
        return False

    def _count_estimate(self, account: Account) -> Tokens:
        """Returns its output tokens, as far as they are more than what was known."""
        estimate, ticket = account.estimate, account.ticket
        if estimate is None or estimate.counted:
            return 0
        estimate.counted, before = True, ticket.produced
        self._count(ticket, estimate.prompt_tokens, estimate.produced)
        return ticket.produced - before

    def _nothing_more_is_said(self, account: Account) -> None:
        """Of a request that is over."""
        ticket = account.ticket
        if account.estimate is not None and not account.estimate.counted:
            ticket.on_estimated(self._count_estimate(account))
            ticket.on_counted()
        self._cost_is(account, _cost_as_shown(ticket))


def _cost(closed: channel.Closed) -> KVTokenTime:
    return kv_token_time(closed.prompt_tokens - closed.cached, closed.produced)


def _cost_as_shown(ticket: Ticket) -> KVTokenTime:
    """The cost of a request by its answer, its sequences taken to be alike."""
    each = ticket.produced / ticket.sequences
    return ticket.produced * (ticket.prompt_tokens / ticket.prompts + (each + 1) / 2)
