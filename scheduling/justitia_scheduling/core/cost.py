"""What a tenant is charged. Each token is charged once; what is charged is never given back.

A cost model turns a step into one charge per request. Runs are always keyed in KV token-time
(:func:`~justitia_scheduling.core.model.kv_token_time`); the cost model is only about shares between tenants.

- :class:`EngineTime` (default), unit engine seconds: a step's duration split over its requests in proportion
  to `c0/n + c_tok * tokens processed + c_kv * KV tokens read`, n requests in the step (VTC's profiled cost, made
  exact). Where steps are not seen, the same expression with fitted coefficients is the charge itself.
- :class:`KVTokenTimeCost`, unit KV token-time: p + i for the i-th output token.
- :class:`WeightedTokens`, unit weighted tokens: w_p per prompt token at admission, w_q per output token
  (VTC, section 4.1; w_p = 1, w_q = 2).
- :class:`ProfiledCost`, unit 0.1 ms of a full A10G: h(p, 0) at admission, the increment of h per output token, with
  `h(p, q) = 2.1 p + q + 0.04 p q + 0.032 q^2 + 11.46`, fitted to measured times (VTC, section 4.2 and appendix B.2).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from justitia_scheduling.core.model import Progress, kv_token_time
from justitia_scheduling.core.recent import RecentMaximum
from justitia_vocabulary.units import KVTokenTime, Seconds, Tokens

BLOCK = 256
"""Steps over which an engine's speed is averaged."""
RECENT_BLOCKS = 40


class Work(NamedTuple):
    """A request's progress in a step, its prompt, its output before; `cached` prompt tokens are shared with others."""

    progress: Progress
    prompt_tokens: Tokens
    produced_before: Tokens
    cached: Tokens = 0

    @property
    def kv_token_time(self) -> int:
        """Increment of the cost: the sum of p + i over this step's output tokens, p without what is shared."""
        n = self.progress.produced
        return n * (self.prompt_tokens + self.produced_before - self.cached) + n * (n + 1) // 2


@dataclass(frozen=True, slots=True)
class StepTime:
    """Coefficients of a step's duration: seconds per step, per token processed, per KV token read."""

    per_step: Seconds
    per_token: Seconds
    per_kv_token: Seconds

    def per_kv_token_time(self, capacity: Tokens) -> Seconds:
        """Seconds in which a full engine of so much KV space delivers one KV token-time."""
        return self.per_step / capacity + self.per_kv_token


class CostModel(ABC):
    """How a tenant's service is measured. `unit` is for people; charges of one model are comparable.

    `burst` is the tenant gate's B where none is set; None: a quarter of U. `step_time` has the coefficients by which
    the model charges; None if it charges no time. `engines` work at once under one policy, whose KV space is theirs
    together.
    """

    __slots__ = ()

    unit: str
    burst: float | None = None
    step_time: StepTime | None = None
    engines: int = 1

    def learn_step_time(self, fitted: StepTime) -> None:  # noqa: B027
        """Take the engine's step time as its host has fitted it. A model that charges no time ignores it."""

    @abstractmethod
    def in_engine(self, capacity: Tokens, longest_output: Tokens) -> float:
        """U: the most that all requests in the engine at one moment can still be charged together.

        `capacity` is the KV space M, `longest_output` the iterations T_max of the longest request.
        """

    def prompt_work(self, capacity: Tokens) -> KVTokenTime:
        """KV token-time that a full engine would deliver in the time of reading a prompt token; 0 if unknown."""
        return 0.0

    def admission(self, prompt_tokens: Tokens) -> float:
        """Charge at the moment of admission."""
        return 0.0

    def keeping(self, kv_token_time: KVTokenTime, capacity: Tokens) -> float:
        """Charge for KV that was kept while nothing was done with it; 0 if the model charges work only."""
        return 0.0

    def at_most(self, duration: Seconds) -> float:
        """The most that a tenant is charged for steps that took so long."""
        return math.inf

    @abstractmethod
    def step(self, work: Sequence[Work], duration: Seconds | None, running: int) -> list[float]:
        """Charges for a step, one per entry of `work`; `running` requests shared the engine meanwhile."""

    @abstractmethod
    def whole(self, prompt_tokens: Tokens, output_tokens: Tokens, running: int) -> float:
        """Charge of a whole request, admission included; an estimate if it depends on how many are `running`."""


@dataclass(frozen=True, slots=True)
class KVTokenTimeCost(CostModel):
    """Charges p + i for the i-th output token, so a request ends up charged its cost C."""

    unit = "KV token-time"

    def keeping(self, kv_token_time: KVTokenTime, capacity: Tokens) -> float:
        return kv_token_time

    def in_engine(self, capacity: Tokens, longest_output: Tokens) -> float:
        return float(capacity * longest_output)

    def step(self, work: Sequence[Work], duration: Seconds | None, running: int) -> list[float]:
        return [float(w.kv_token_time) for w in work]

    def whole(self, prompt_tokens: Tokens, output_tokens: Tokens, running: int) -> float:
        return kv_token_time(prompt_tokens, output_tokens)


@dataclass(frozen=True, slots=True)
class WeightedTokens(CostModel):
    """Charges prompt tokens at admission and output tokens as they come, so a request ends up charged w_p*p + w_q*d."""

    unit = "weighted tokens"

    prompt_weight: float = 1.0
    output_weight: float = 2.0

    def in_engine(self, capacity: Tokens, longest_output: Tokens) -> float:
        return max(self.prompt_weight, self.output_weight) * capacity

    def admission(self, prompt_tokens: Tokens) -> float:
        return self.prompt_weight * prompt_tokens

    def step(self, work: Sequence[Work], duration: Seconds | None, running: int) -> list[float]:
        return [self.output_weight * w.progress.produced for w in work]

    def whole(self, prompt_tokens: Tokens, output_tokens: Tokens, running: int) -> float:
        return self.prompt_weight * prompt_tokens + self.output_weight * output_tokens


@dataclass(frozen=True, slots=True)
class ProfiledCost(CostModel):
    """Charges the increments of a quadratic h(p, q), so a request ends up charged h(p, d) however it is chunked.

    h was fitted to times of Llama-2-7B on an A10G, per request, with a batch that fills the KV space.
    """

    unit = "0.1 ms of a full A10G"
    burst = 4_000_000.0

    prompt: float = 2.1
    output: float = 1.0
    product: float = 0.04
    square: float = 0.032
    constant: float = 11.46

    def in_engine(self, capacity: Tokens, longest_output: Tokens) -> float:
        """Admission of the last request and all output of all, their p + d being at most M and each d at most T_max.

        Linear terms: at most `max(prompt, output) * M`, since one prompt and all outputs share M. The others: for each
        request `d * (product * p + square * d) <= T_max * max(product, square) * (p + d)`, and the p + d sum to M.
        """
        per_token = max(self.prompt, self.output) + longest_output * max(self.product, self.square)
        return self.constant + per_token * capacity

    def admission(self, prompt_tokens: Tokens) -> float:
        return self.prompt * prompt_tokens + self.constant

    def step(self, work: Sequence[Work], duration: Seconds | None, running: int) -> list[float]:
        return [
            self._output(w.prompt_tokens - w.cached, w.produced_before + w.progress.produced)
            - self._output(w.prompt_tokens - w.cached, w.produced_before)
            for w in work
        ]

    def whole(self, prompt_tokens: Tokens, output_tokens: Tokens, running: int) -> float:
        return self.admission(prompt_tokens) + self._output(prompt_tokens, output_tokens)

    def _output(self, prompt_tokens: Tokens, output_tokens: Tokens) -> float:
        """h(p, q) - h(p, 0)."""
        return output_tokens * (self.output + self.product * prompt_tokens + self.square * output_tokens)


class EngineTime(CostModel):
    """Charges engine seconds: observed durations split, or estimated ones where steps are not seen.

    A step makes one token for a request, so n output tokens count as n such steps, each with one more token to read
    than the one before. Tokens processed again after a preemption weigh in the split, and their part of the step in
    which they are processed is charged to nobody. That step is the first of the n: all that was lost is processed
    before the next token.
    U takes steps to be as the coefficients say, with as many requests as ran at once of late, times how much slower
    than that the engine was in the slowest of the last `RECENT_BLOCKS` to twice as many blocks of `BLOCK` steps. So a
    stall counts as a stall, not as the length of each step, and not for ever.
    """

    unit = "engine seconds"
    burst = 400.0

    def __init__(self, step_time: StepTime, engines: int = 1) -> None:
        self.step_time: StepTime = step_time
        self.engines = engines
        self._slowest_block = RecentMaximum(RECENT_BLOCKS, 1.0)
        self._most_at_once = RecentMaximum(RECENT_BLOCKS, 1)
        self._observed = self._expected = 0.0
        self._steps = 0

    def learn_step_time(self, fitted: StepTime) -> None:
        self.step_time = fitted

    def in_engine(self, capacity: Tokens, longest_output: Tokens) -> float:
        t = self.step_time
        step = (t.per_step + t.per_token * self._most_at_once.value) * self.engines + t.per_kv_token * capacity
        return (longest_output * step + t.per_token * capacity) * self._slowest_block.value

    def prompt_work(self, capacity: Tokens) -> KVTokenTime:
        """A full iteration delivers M in `c0 + c_kv M` seconds: `c_tok` seconds are worth `c_tok / (c0/M + c_kv)`, with
        the M of one engine.
        """
        per_kv_token_time = self.step_time.per_kv_token_time(self._of_one(capacity))
        return self.step_time.per_token / per_kv_token_time if per_kv_token_time else 0.0

    def keeping(self, kv_token_time: KVTokenTime, capacity: Tokens) -> float:
        """The time in which a full engine would have delivered it."""
        return kv_token_time * self.step_time.per_kv_token_time(self._of_one(capacity))

    def _of_one(self, capacity: Tokens) -> Tokens:
        """The KV space of one engine."""
        return capacity // self.engines

    def at_most(self, duration: Seconds) -> float:
        return duration

    def step(self, work: Sequence[Work], duration: Seconds | None, running: int) -> list[float]:
        n = len(work) if duration is not None else max(running, len(work))
        t = self.step_time
        per_step, per_token, per_kv_token = t.per_step / n, t.per_token, t.per_kv_token
        charged: list[float] = []
        longest, free = 1, 0.0
        for (_, prefilled, produced, again), prompt, before, _ in work:
            steps = produced or 1
            kv_read = steps * (prompt + before) + steps * (steps - 1) // 2
            part = per_step * steps + per_token * (prefilled + produced + again) + per_kv_token * kv_read
            if again:
                tokens = prefilled + again + min(produced, 1)
                first_step = per_step + per_token * tokens + per_kv_token * (prompt + before)
                lost = first_step * (again / tokens)
                part, free = part - lost, free + lost
            charged.append(part)
            longest = max(longest, steps)
        scale = 1.0
        if duration is not None and (total := sum(charged) + free):
            scale = duration / total
            self._observe(duration, total, longest, n)
        return [part * scale for part in charged]

    def _observe(self, duration: Seconds, expected: Seconds, steps: int, requests: int) -> None:
        """Note how long that many steps took, and how long they should have taken."""
        self._most_at_once.observe(requests)
        self._observed += duration
        self._expected += expected
        self._steps += steps
        if self._steps >= BLOCK:
            self._slowest_block.observe(self._observed / self._expected)
            self._slowest_block.count()
            self._most_at_once.count()
            self._observed = self._expected = 0.0
            self._steps = 0

    def whole(self, prompt_tokens: Tokens, output_tokens: Tokens, running: int) -> float:
        t = self.step_time
        kv_read = prompt_tokens * output_tokens + output_tokens * (output_tokens - 1) // 2
        processed = (prompt_tokens + output_tokens) * t.per_token if output_tokens else 0.0
        return output_tokens * t.per_step / max(running, 1) + processed + t.per_kv_token * kv_read
