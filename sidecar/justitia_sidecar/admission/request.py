"""A request on its way through the sidecar: what it asks for, its account, its timing, its part of the engine."""

from dataclasses import dataclass, field
from typing import Protocol

from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.admission.stages import Event, Stage, after
from justitia_vocabulary.units import ApplicationId, RequestId, Seconds, TenantId, Tokens


@dataclass(frozen=True, slots=True)
class RequestShape:
    """What a request asks for: so many `sequences` of so many `prompts`, each of at most `max_tokens` of output, which
    nothing else ends where it is `fixed_output`.
    """

    max_tokens: Tokens
    fixed_output: bool = False
    streamed: bool = True
    prompts: int = 1
    sequences: int = 1


@dataclass(slots=True)
class TokenAccount:
    """Tokens of all sequences, those of each prompt once. `prompt` may be an estimate until `prompt_exact`. `counted`:
    the engine has read so much of the prompt, though it may have produced nothing. `metered` are those that the
    tenant's limit and the metrics know of.
    """

    prompt: Tokens
    prompt_exact: bool
    produced: Tokens = 0
    counted: bool = False
    metered_prompt: Tokens = 0
    metered_output: Tokens = 0

    def raise_to(self, prompt: Tokens, produced: Tokens) -> None:
        """Take the engine's count so far, where it is larger. What was known of the prompt before is not its count."""
        if not (prompt or produced):
            return
        self.prompt, self.prompt_exact = max(self.prompt if self.counted else 0, prompt), True
        self.produced = max(self.produced, produced)
        self.counted = True


@dataclass(slots=True)
class Timing:
    """When a request arrived, was sent to the engine, and got its first token."""

    arrival: Seconds
    sent: Seconds = 0.0
    first_token: Seconds | None = None


@dataclass(slots=True)
class Placement:
    """What a request has of the engine: `rank` is its place in the order of admissions, and its priority there; KV
    tokens are `reserved` for it, and `resident` are those that it has there.
    """

    rank: int = 0
    reserved: Tokens = 0
    resident: Tokens = 0


class Observer(Protocol):
    """Who has sent a request hears what becomes of it."""

    def admitted(self, request: "TrackedRequest") -> None:
        """Once, as it goes to the engine."""

    def begun(self, request: "TrackedRequest") -> None:
        """Once, as it waits for nothing more, here or in the engine."""

    def displaced(self, request: "TrackedRequest") -> None:
        """It gives way, while it waits, to another tenant's request."""

    def estimated(self, request: "TrackedRequest", output: Tokens) -> None:
        """It is over, and so many output tokens of what is counted next are an estimate."""

    def counted(self, request: "TrackedRequest") -> None:
        """It is over, and something else has been counted of it."""


@dataclass(slots=True, eq=False)
class TrackedRequest:
    """A request from its arrival until it is over. It has `begun` when it counts as running."""

    id: RequestId
    tenant: TenantId
    application: ApplicationId
    run: TrackedRun
    asks: RequestShape
    account: TokenAccount
    timing: Timing
    observer: Observer
    placement: Placement = field(default_factory=Placement)
    begun: bool = False
    _stage: Stage = Stage.HELD

    @property
    def stage(self) -> Stage:
        return self._stage

    @property
    def in_engine(self) -> bool:
        return self._stage in (Stage.SENT, Stage.STARTED)

    def advance(self, event: Event) -> None:
        """Raises ImpossibleTransitionError."""
        self._stage = after(self._stage, event)

    def age(self, now: Seconds) -> Seconds:
        return now - self.timing.arrival

    def pace(self, now: Seconds) -> Seconds | None:
        """For each token of a sequence after its first, if the last one came now; None where that is not seen."""
        first, after_first = self.timing.first_token, self.account.produced / self.asks.sequences - 1
        return (now - first) / after_first if first is not None and after_first > 0 else None
