"""Where the order is kept inside the engine: every request goes on at once, with a ticket, and waits there.

The engine's scheduler says when it has begun with a request, at its first sequence. Until then the request counts as
queued, so that the bounds of the pool's and the tenants' queues hold, and a tenant at its limit of running requests
keeps the others here. Service, gate and order are the engine's, as it last told them (`EngineChannel.state`); here runs
are recognised, and their cost is counted for their own limits.

Tokens are counted by what an answer shows and by what the engine says of each sequence as soon as it is over
(`accounts.py`). What it says is exact, and comes for aborted requests too, so nothing is estimated. Both are
cumulative: the larger counts. A run's cost is what the engine says of its sequences; where it says nothing, what the
answers show.
"""

from collections.abc import Callable, Mapping

from justitia_api.config import PoolConfig
from justitia_api.status import GateStatus, WaitingReason
from justitia_scheduling import channel
from justitia_scheduling.cost import KVTokenTimeCost
from justitia_scheduling.fcfs import FCFS
from justitia_scheduling.model import KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens, kv_token_time
from justitia_scheduling.policy import OpenRun
from justitia_sidecar.accounts import Account, Accounts
from justitia_sidecar.admission import Admission
from justitia_sidecar.engine_channel import EngineChannel
from justitia_sidecar.ticket import Stage, Ticket


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

    def __init__(self, config: PoolConfig, engine: EngineChannel, clock: Callable[[], Seconds]) -> None:
        self._passed_on = PassedOn(engine)
        super().__init__(config, self._passed_on)
        self._channel = engine
        self._clock = clock
        self._accounts = Accounts()
        engine.hear = self._heard

    @property
    def service(self) -> Mapping[TenantId, float]:
        return {TenantId(tenant): service for tenant, service in self._channel.state.get("service", {}).items()}

    @property
    def unit(self) -> str:
        return str(self._channel.state.get("unit", ""))

    @property
    def gate(self) -> GateStatus | None:
        state = self._channel.state
        return GateStatus(burst=state["burst"], in_engine=state["inEngine"]) if "burst" in state else None

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
        """The engine will say."""
        return 0

    def leave(self, ticket: Ticket, now: Seconds, *, completed: bool, ends_run: bool = False) -> None:
        if ticket.stage is Stage.SENT:
            self._count_as_running(ticket)
        if self._accounts.get(ticket.id) is None:
            self._count_cost(ticket, _cost_as_shown(ticket))
        self._accounts.left(ticket.id)
        super().leave(ticket, now, completed=completed, ends_run=ends_run)

    def tick(self, now: Seconds) -> None:
        super().tick(now)
        for account in self._accounts.forget_all_but(self._channel.peer):
            said = sum(map(_cost, account.closed.values()))
            self._count_cost(account.ticket, max(0.0, _cost_as_shown(account.ticket) - said))

    def _obstacle(self, ticket: Ticket, now: Seconds) -> WaitingReason | None:
        return None if self.engine.ready else WaitingReason.ENGINE_UNAVAILABLE

    def _admit(self, ticket: Ticket, now: Seconds) -> None:
        run = self.policy.runs[ticket.run.id].run
        told = (run.predicted_cost, run.predicted_prompt, run.predicted_output)
        name = self._passed_on.name(run.id)
        self._channel.send(channel.Ticket(ticket.id, run.tenant, run.application, name, ticket.sequences, *told))
        if self._channel.connected:
            self._accounts.opened(Account(ticket, self._channel.peer, self._channel.gaps))
        self._send(ticket, now)

    def _started(self, ticket: Ticket, now: Seconds) -> None:
        if ticket.stage is Stage.SENT:
            self._count_as_running(ticket)
            ticket.on_begun()
        super()._started(ticket, now)

    def _heard(self, message: channel.Admitted | channel.Closed) -> None:
        if isinstance(message, channel.Closed):
            self._close(message)
        elif (ticket := self.tickets.get(RequestId(message.key))) is not None:
            self._started(ticket, self._clock())

    def _close(self, message: channel.Closed) -> None:
        """A sequence is over in the engine; its request may have been over before."""
        account = self._accounts.heard(message)
        if account is None:
            return
        ticket = account.ticket
        self._count(ticket, account.prompt_tokens, account.produced)
        self._count_cost(ticket, _cost(message))
        if ticket.stage is Stage.OVER:
            ticket.on_counted()

    @staticmethod
    def _count(ticket: Ticket, prompt_tokens: Tokens, produced: Tokens) -> None:
        """What was known of the prompt before anything was produced is not the engine's count."""
        before = ticket.prompt_tokens if ticket.produced else 0
        if produced:
            ticket.prompt_tokens, ticket.prompt_exact = max(before, prompt_tokens), True
            ticket.produced = max(ticket.produced, produced)

    def _count_cost(self, ticket: Ticket, cost: KVTokenTime) -> None:
        run = self.policy.runs.get(ticket.run.id)
        if run is None:
            ticket.run.cost += cost
        else:
            run.kv_token_time += cost


def _cost(closed: channel.Closed) -> KVTokenTime:
    return kv_token_time(closed.prompt_tokens - closed.cached, closed.produced)


def _cost_as_shown(ticket: Ticket) -> KVTokenTime:
    """The cost of a request by its answer, its sequences taken to be alike."""
    each = ticket.produced / ticket.sequences
    return ticket.produced * (ticket.prompt_tokens / ticket.prompts + (each + 1) / 2)
