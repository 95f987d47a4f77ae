"""The interface of an admission, whether the order is kept in front of the engine or inside it."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from justitia_api.status import GateStatus
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.report import PolicyReport
from justitia_sidecar.admission.books import Books
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.engine.view import EngineView
from justitia_vocabulary.units import ApplicationId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason


class Admission(Protocol):
    """Decides when a request goes to the engine, and what it is charged. No clock, no I/O; `now` is in seconds."""

    books: Books
    engine: EngineView

    @property
    def service(self) -> Mapping[TenantId, float]:
        """What each tenant was charged, in `unit`."""

    @property
    def application_service(self) -> Mapping[ApplicationId, float]:
        """What each application was charged, in `unit`."""

    @property
    def unit(self) -> str: ...

    @property
    def gate(self) -> GateStatus | None:
        """The gate of the policy. None under a policy without one."""

    @property
    def step_time(self) -> StepTime | None:
        """The engine's step time, as fitted. None while it is not known."""

    @property
    def held(self) -> Tokens:
        """KV tokens of the requests in the engine, as far as they are counted; 0 where they are not counted here."""

    def enter(self, request: TrackedRequest, now: Seconds) -> None:
        """Let a request wait. Its run counts it already.

        Raises a refusal if the queue has filled since `check_room`; call `leave` for the request then, too.
        """

    def pump(self, now: Seconds) -> None:
        """Send the requests that may go to the engine."""

    def leave(self, request: TrackedRequest, now: Seconds, *, completed: bool, ends_run: bool = False) -> None:
        """Note, once, that a request is over: completed, or aborted at whatever stage."""

    def waits(self, request: TrackedRequest) -> bool:
        """Whether the request still waits, so that it may be refused. False if that cannot be known."""

    def counted(
        self, request: TrackedRequest, prompt_tokens: Tokens, produced: Tokens, now: Seconds, cached: Tokens = 0
    ) -> None:
        """Take the engine's count so far: `prompt_tokens` and, in all, `produced`. Only the first call may name
        `cached` tokens.
        """

    def refused_by_engine(self, request: TrackedRequest, now: Seconds) -> None:
        """Note that the engine did not take the request, and did nothing for it."""

    def abandoned(self, request: TrackedRequest, now: Seconds) -> Tokens:
        """Charge a request that was sent and is about to leave before anything of its answer was seen, for what the
        engine should have done. Returns the estimate of its output.
        """

    def engine_told(self, view: EngineView, now: Seconds) -> None:
        """Take what a probe of the engine has found."""

    def tick(self, now: Seconds) -> None:
        """Do what is due, about once a second."""

    def next_look(self, now: Seconds) -> Seconds | None:
        """When to pump again even if nothing happens until then. None: no such moment."""

    def waiting(self, now: Seconds) -> Iterator[tuple[TrackedRequest, WaitingReason]]:
        """The requests that wait here, in order, each with why it waits."""

    def order_key(self, request: TrackedRequest) -> Mapping[str, float] | None:
        """What decides the request's place in the order that is kept here. None if it has no place here."""

    def expected_tokens(self, request: TrackedRequest) -> Tokens | None:
        """KV tokens that the request is expected to hold at its end. None where that is not expected here."""


def gate_of(report: PolicyReport) -> GateStatus | None:
    """The gate of the policy that reports so. None if it has none."""
    if report.burst is None or report.slack is None or report.in_engine is None:
        return None
    return GateStatus(burst=report.burst, slack=report.slack, in_engine=report.in_engine)
