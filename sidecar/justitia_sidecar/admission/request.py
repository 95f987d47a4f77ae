"""A request on its way through the sidecar: what it asks for, its tokens, its moments, its part of the engine."""

from dataclasses import dataclass, field
from typing import Protocol

from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.admission.stages import Event, Stage, after
from justitia_vocabulary.units import ApplicationId, RequestId, Seconds, TenantId, Tokens


@dataclass(frozen=True, slots=True)
class RequestShape:
    """What a request asks for: so many `sequences` for so many `prompts`, each with at most `max_tokens` of output.
    With `fixed_output` nothing else ends the output.
    """

    max_tokens: Tokens
    fixed_output: bool = False
    streamed: bool = True
    prompts: int = 1
    sequences: int = 1


@dataclass(slots=True)
class TokenAccount:
    """Tokens of all sequences, those of each prompt once. `prompt` may be an estimate until `prompt_exact`. `counted`
    says that `prompt` is what the engine has read, even if it has produced nothing. `metered` tokens have been taken
    from the tenant's limit and added to the metrics.
    """

    prompt: Tokens
    prompt_exact: bool
    produced: Tokens = 0
    counted: bool = False
    metered_prompt: Tokens = 0
    metered_output: Tokens = 0

    def raise_to(self, prompt: Tokens, produced: Tokens) -> None:
        """Take the engine's count so far if it is larger. An estimate of the prompt is no count: it is replaced."""
        if not (prompt or produced):
            return
        self.prompt, self.prompt_exact = max(self.prompt if self.counted else 0, prompt), True
        self.produced = max(self.produced, produced)
        self.counted = True


@dataclass(slots=True)
class Timing:
    """When a request arrived, was sent to the engine, and got the head of a streamed answer and its first token."""

    arrival: Seconds
    sent: Seconds = 0.0
    answered: Seconds | None = None
    first_token: Seconds | None = None


@dataclass(slots=True)
class Placement:
    """A request's part of the engine. `number` is its priority there, the smallest first. It holds `resident` KV
    tokens.
    """

    number: int = 0
    resident: Tokens = 0


class Observer(Protocol):
    """Hears what becomes of a request."""

    def admitted(self, request: "TrackedRequest") -> None:
        """The request goes to the engine. Called once."""

    def begun(self, request: "TrackedRequest") -> None:
        """The request waits no more, here or in the engine. Called once."""

    def displaced(self, request: "TrackedRequest") -> None:
        """The request waited, and is displaced by one of another tenant or application."""

    def estimated(self, request: "TrackedRequest", output: Tokens) -> None:
        """The request is over, and so many output tokens of the next count are an estimate."""

    def counted(self, request: "TrackedRequest") -> None:
        """The request is over, and its count has changed."""


@dataclass(slots=True, eq=False)
class TrackedRequest:
    """A request from its arrival until it is over. It has `begun` when it counts as running. It is ordered by its
    application's objective for single requests for `boosted_for` seconds from its arrival.
    """

    id: RequestId
    tenant: TenantId
    application: ApplicationId
    run: TrackedRun
    asks: RequestShape
    account: TokenAccount
    timing: Timing
    observer: Observer
    placement: Placement = field(default_factory=Placement)
    boosted_for: Seconds | None = None
    begun: bool = False
    _stage: Stage = Stage.HELD

    @property
    def stage(self) -> Stage:
        return self._stage

    @property
    def in_engine(self) -> bool:
        return self._stage in (Stage.SENT, Stage.STARTED)

    def advance(self, event: Event) -> None:
        """Go to the next stage. Raises ImpossibleTransitionError."""
        self._stage = after(self._stage, event)

    def age(self, now: Seconds) -> Seconds:
        return now - self.timing.arrival

    def boost_left(self, now: Seconds) -> Seconds | None:
        """How long it is still ordered so. None if it is not, or not any more."""
        left = None if self.boosted_for is None else self.boosted_for - self.age(now)
        return left if left is not None and left > 0 else None

    def pace(self, now: Seconds) -> Seconds | None:
        """Seconds for each token of a sequence after its first, if the last one came now. None if that is not seen."""
        first, after_first = self.timing.first_token, self.account.produced / self.asks.sequences - 1
        return (now - first) / after_first if first is not None and after_first > 0 else None
