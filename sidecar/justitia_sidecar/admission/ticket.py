"""A request on its way through the sidecar."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from justitia_sidecar.admission.runs import TrackedRun
from justitia_vocabulary.units import ApplicationId, RequestId, Seconds, TenantId, Tokens


class Stage(Enum):
    """Where a request is on its way through the sidecar."""

    HELD = "held"
    QUEUED = "queued"
    SENT = "sent"
    STARTED = "started"
    OVER = "over"


@dataclass(slots=True, eq=False)
class Ticket:
    """A request in the sidecar, of so many `sequences`; tokens are those of all of them, of each prompt once.
    `prompt_tokens` may be an estimate until `prompt_exact`. `max_tokens` is of each sequence. `counted`: the engine has
    read so much of the prompt, though it may have produced nothing.

    `rank` is its place in the order of admissions, and its priority in the engine. `on_admitted` is called once, as it
    goes to the engine; `on_begun` once, as it waits for nothing more, here or there; `on_displaced` as it gives
    way to another tenant's request while it waits; `on_counted` when something else has been counted of a request that
    is over, and before it `on_estimated` with the output tokens that are an estimate.
    """

    id: RequestId
    tenant: TenantId
    application: ApplicationId
    run: TrackedRun
    prompt_tokens: Tokens
    prompt_exact: bool
    max_tokens: Tokens
    fixed_output: bool
    streamed: bool
    arrival: Seconds
    on_admitted: Callable[[], None]
    on_begun: Callable[[], None] = lambda: None
    on_displaced: Callable[[], None] = lambda: None
    on_counted: Callable[[], None] = lambda: None
    on_estimated: Callable[[Tokens], None] = lambda tokens: None
    prompts: int = 1
    sequences: int = 1
    stage: Stage = Stage.HELD
    rank: int = 0
    reserved: Tokens = 0
    resident: Tokens = 0
    produced: Tokens = 0
    counted: bool = False
    first_token: Seconds | None = None
    metered_prompt: Tokens = 0
    metered_output: Tokens = 0
    sent: Seconds = 0.0
    last_chunk: Seconds = 0.0
    processed_then: Tokens = 0

    def pace(self, now: Seconds) -> Seconds | None:
        """For each token of a sequence after its first, if the last one came now; None where that is not seen."""
        after_first = self.produced / self.sequences - 1
        return (now - self.first_token) / after_first if self.first_token is not None and after_first > 0 else None
