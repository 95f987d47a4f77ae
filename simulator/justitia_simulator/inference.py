"""A request in an engine, the step under way, and the plan of the next."""

from dataclasses import dataclass, field

from justitia_scheduling.core.model import Run
from justitia_simulator.blocks import HeldBlocks
from justitia_simulator.contexts import Origin
from justitia_simulator.workload import WorkloadRequest
from justitia_vocabulary.units import RequestId, Seconds, Tokens


@dataclass(slots=True, eq=False)
class Inference:
    """A ready request in an engine.

    `computed` tokens of KV are there; it decodes once that exceeds `target`, what had to be prefilled when it was
    admitted. `processed` is the most that was ever there: up to it, tokens are recomputed. `cached` tokens of its
    prompt were there when it was first admitted. It has a `holding` since then.
    """

    id: RequestId
    run: Run
    work: WorkloadRequest
    predicted_output: float | None
    ready: Seconds
    origin: Origin
    boosted_for: Seconds | None = None
    cached: Tokens = 0
    admitted: Seconds = -1.0
    first_token: Seconds = -1.0
    produced: Tokens = 0
    computed: Tokens = 0
    target: Tokens = 0
    processed: Tokens = 0
    preemptions: int = 0
    holding: HeldBlocks = field(init=False)

    @property
    def to_read(self) -> Tokens:
        """Tokens that have to be in the KV before it decodes."""
        return self.work.prompt_tokens + self.produced

    @property
    def written(self) -> Tokens:
        """Tokens whose KV is there: the last one that it yielded is written with the next."""
        return self.computed - (self.computed > self.target)


@dataclass(slots=True)
class StepUnderWay:
    """`steps` steps alike since `start`; `kv_read` in the first, `delay` more for swaps, arrivals and attention."""

    start: Seconds
    decoding: list[Inference]
    prefill: dict[Inference, Tokens]
    prefilled: Tokens
    kv_read: Tokens
    delay: Seconds
    steps: int = 1
    duration: Seconds = 0.0


@dataclass(slots=True)
class Plan:
    """The next step: a token for each of `decoding`, prompt tokens by request; `left` more may join."""

    left: Tokens
    decoding: list[Inference] = field(default_factory=list)
    prefill: dict[Inference, Tokens] = field(default_factory=dict)

    def drop(self, request: Inference) -> None:
        if request in self.decoding:
            self.decoding.remove(request)
            self.left += 1
        else:
            self.left += self.prefill.pop(request, 0)
