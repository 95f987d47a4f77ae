"""What the rest of the sidecar asks of an admission, whether the order is kept in front of the engine or inside it."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from justitia_api.status import GateStatus
from justitia_scheduling.core.cost import StepTime
from justitia_sidecar.admission.books import Books
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.engine.view import EngineView
from justitia_vocabulary.units import Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason


class Admission(Protocol):
    """When a request goes to the engine, and what it is charged. No clock, no I/O; `now` is in seconds."""

    books: Books
    engine: EngineView

    @property
    def service(self) -> Mapping[TenantId, float]:
        """What tenants were charged, in `unit`."""

    @property
    def unit(self) -> str: ...

    @property
    def gate(self) -> GateStatus | None:
        """None under a policy without one."""

    @property
    def step_time(self) -> StepTime | None:
        """The engine's, as fitted; None where it is not known."""

    @property
    def reserved(self) -> Tokens:
        """KV tokens that are set aside for what the engine has; 0 where nothing is."""

    def enter(self, request: TrackedRequest, now: Seconds) -> None:
        """The request waits. Its run counts it already.

        Raises a refusal where the queue has filled since it was looked at; the request is to `leave` then, too.
        """

    def pump(self, now: Seconds) -> None:
        """Send what may go to the engine."""

    def leave(self, request: TrackedRequest, now: Seconds, *, completed: bool, ends_run: bool = False) -> None:
        """The request is over: completed, or aborted at whatever stage. Once."""

    def waits(self, request: TrackedRequest) -> bool:
        """Whether the request may still be refused because it waits. False where that cannot be known."""

    def counted(
        self, request: TrackedRequest, prompt_tokens: Tokens, produced: Tokens, now: Seconds, cached: Tokens = 0
    ) -> None:
        """The engine's count so far: `prompt_tokens` and, in all, `produced`. `cached` is told at most once, first."""

    def refused_by_engine(self, request: TrackedRequest, now: Seconds) -> None:
        """The engine did not take the request: it has done nothing for it."""

    def abandoned(self, request: TrackedRequest, now: Seconds) -> Tokens:
        """A request that was sent is about to leave, and nothing was seen of its answer: it is charged what the engine
        should have done. Returns the estimate of its output.
        """

    def engine_told(self, view: EngineView, now: Seconds) -> None:
        """What a probe has found."""

    def tick(self, now: Seconds) -> None:
        """Housekeeping, about once a second."""

    def next_look(self, now: Seconds) -> Seconds | None:
        """When to pump again though nothing happens. None: no such moment."""

    def waiting(self, now: Seconds) -> Iterator[tuple[TrackedRequest, WaitingReason]]:
        """Requests that wait here, in order, each with why it waits."""

    def order_key(self, request: TrackedRequest) -> Mapping[str, float] | None:
        """What decides the place of a request in the order that is kept here; None: it has none here."""

    def reservation(self, request: TrackedRequest) -> Tokens | None:
        """KV tokens that the request would reserve if it were admitted; None where nothing is reserved."""
