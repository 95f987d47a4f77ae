"""Where the order is kept inside the engine: every request goes on at once, with a ticket, and waits there.

The engine's scheduler says when it has begun with a request. Until then the request counts as queued, so that the
bounds of the pool's and the tenants' queues hold, and a tenant at its limit of running requests keeps the others here.
Service, gate and order are the engine's, as it last told them (`EngineChannel.state`); here runs are recognised, and
their cost is counted for their own limits.
"""

from collections.abc import Callable, Mapping

from justitia_api.config import PoolConfig
from justitia_api.status import GateStatus, WaitingReason
from justitia_scheduling import channel
from justitia_scheduling.cost import KVTokenTimeCost
from justitia_scheduling.fcfs import FCFS
from justitia_scheduling.model import RequestId, RunId, Seconds, TenantId, Tokens
from justitia_scheduling.policy import OpenRun
from justitia_sidecar.admission import Admission, Stage, Ticket
from justitia_sidecar.engine_channel import EngineChannel


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

    def estimate_produced(self, ticket: Ticket, now: Seconds) -> Tokens:
        """Nothing: the engine charges what it produced."""
        return 0

    def leave(self, ticket: Ticket, now: Seconds, *, completed: bool, ends_run: bool = False) -> None:
        self._started(ticket, now)
        super().leave(ticket, now, completed=completed, ends_run=ends_run)

    def _obstacle(self, ticket: Ticket, now: Seconds) -> WaitingReason | None:
        return None if self.engine.ready else WaitingReason.ENGINE_UNAVAILABLE

    def _admit(self, ticket: Ticket, now: Seconds) -> None:
        run = self.policy.runs[ticket.run.id].run
        told = (run.predicted_cost, run.predicted_prompt, run.predicted_output)
        name = self._passed_on.name(run.id)
        self._channel.send(channel.Ticket(ticket.id, run.tenant, run.application, name, 1, *told))
        self._send(ticket, now)

    def _started(self, ticket: Ticket, now: Seconds) -> None:
        if ticket.stage is Stage.SENT:
            self._count_as_running(ticket)
        super()._started(ticket, now)

    def _heard(self, message: channel.Admitted | channel.Closed) -> None:
        ticket = self.tickets.get(RequestId(message.key))
        if ticket is not None and isinstance(message, channel.Admitted):
            self._started(ticket, self._clock())
