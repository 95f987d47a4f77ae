"""Steps that the policy has not been told of, and what part of their time is one sequence's.

To tell a policy of each running sequence in each step would cost as much as vLLM's own scheduling. So steps are
collected and told together, as many as there are running sequences, within limits: what a sequence produced meanwhile
is known from its own count, only what it read of its prompt has to be noted. A sequence that leaves the batch is told
at once, with its part of the time, so that it is charged in full when it is closed.

The part is that of the cost model for engine time (`cost.EngineTime`), with the fitted step time:

    c0 * its steps / sequences in a step + c_tok * its tokens + c_kv * tokens of KV that it read

divided by the same sum over all sequences. All parts together are the time that passed.
"""

from dataclasses import dataclass, field

from justitia_scheduling.core.model import Progress
from justitia_scheduling.core.step_time import StepTimeFit
from justitia_vocabulary.units import RequestId, Seconds, Tokens

FEWEST, MOST = 8, 32
"""Steps that are told together."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Prompt tokens that a step processed for a sequence: for the first time, and again after a preemption."""

    sequence: RequestId
    prefilled: Tokens
    recomputed: Tokens


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step: the number of sequences, the tokens processed for all of them, the KV tokens of all that run, of which
    those that several share count for each.
    """

    sequences: int
    tokens: Tokens
    kv_tokens: Tokens
    readings: tuple[Reading, ...]
    duration: Seconds


@dataclass(slots=True)
class _Sums:
    """Sums over some steps, or over parts of them: seconds, sequences in a step, tokens processed, KV tokens read."""

    duration: Seconds = 0.0
    sequences: int = 0
    tokens: Tokens = 0
    kv_read: Tokens = 0


@dataclass(slots=True)
class Untold:
    """The steps since all was told, and the parts of sequences that left. `fit` learns the step time from them."""

    fit: StepTimeFit
    steps: int = 0
    _all: _Sums = field(default_factory=_Sums)
    _gone: _Sums = field(default_factory=_Sums)
    _read: dict[RequestId, tuple[Tokens, Tokens]] = field(default_factory=dict)

    def add(self, done: StepDone) -> None:
        self.steps += 1
        sums = self._all
        sums.duration += done.duration
        sums.sequences += done.sequences
        sums.tokens += done.tokens
        sums.kv_read += done.kv_tokens

    def note(self, reading: Reading) -> None:
        """Keep it until the :meth:`progress` of its sequence is asked for, at the latest when that is closed."""
        prefilled, recomputed = self._read.get(reading.sequence, (0, 0))
        self._read[reading.sequence] = prefilled + reading.prefilled, recomputed + reading.recomputed

    def due(self, running: int) -> bool:
        """Whether it is time to tell the policy of all steps."""
        return self.steps >= min(max(running, FEWEST), MOST)

    def progress(self, sequence: RequestId, produced: Tokens) -> Progress | None:
        """The sequence's progress, with `produced` new output tokens; None if nothing was done for it."""
        prefilled, recomputed = self._read.pop(sequence, (0, 0))
        if not (prefilled or recomputed or produced):
            return None
        return Progress(sequence, prefilled, produced, recomputed)

    def take_part(self, progress: Progress, kv_tokens: Tokens) -> Seconds:
        """Take out the sequence's part of the time and return it. The sequence held `kv_tokens` before."""
        t, left, gone = self.fit.step_time, self._left(), self._gone
        steps = min(progress.produced or 1, self.steps)
        tokens = progress.prefilled + progress.recomputed + progress.produced
        per_step = t.per_step * self.steps / left.sequences if left.sequences else 0.0
        own = per_step * steps + t.per_token * tokens + t.per_kv_token * steps * kv_tokens
        whole = t.per_step * self.steps + t.per_token * left.tokens + t.per_kv_token * left.kv_read
        part = left.duration * min(1.0, own / whole) if whole else 0.0
        gone.duration += part
        gone.sequences += steps
        gone.tokens += tokens
        gone.kv_read += steps * kv_tokens
        return part

    @property
    def duration(self) -> Seconds:
        """The time that no sequence has taken out."""
        return self._left().duration

    def told(self) -> Seconds:
        """All is told: return the time that no sequence has taken out, and begin anew."""
        left, sums = self.duration, self._all
        self.fit.observe(sums.duration, self.steps, sums.tokens, sums.kv_read // self.steps)
        self.steps, self._all, self._gone = 0, _Sums(), _Sums()
        return left

    def _left(self) -> _Sums:
        """The part of the steps that no sequence has taken out."""
        every, gone = self._all, self._gone
        return _Sums(
            every.duration - gone.duration,
            max(0, every.sequences - gone.sequences),
            max(0, every.tokens - gone.tokens),
            max(0, every.kv_read - gone.kv_read),
        )
