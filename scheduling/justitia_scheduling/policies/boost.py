"""What the boosted policies share: the boost, the engine seconds that a token takes, and gamma.

A request is served in the order of its arrival minus a boost that shrinks with its work w (gamma-Boost: Yu & Scully
2024; tail-aware scheduling, equation 2):

    b_gamma(w) = ln(1 / (1 - exp(-gamma * w))) / gamma

gamma -> infinity is first come, first served; gamma -> 0 orders by w alone. Gamma is a rate in 1/s (`tailslope.py`), so
w must be in seconds: in tokens, every boost would be 0, which is first come, first served. Tokens become engine
seconds by what a token takes of a step's time, kept apart for prefill and decode:

    tau = moving average of seconds / moving average of tokens,   a step's seconds split evenly over its tokens

so that the seconds of all tokens sum to the time the engine was busy. Steps reported as one count singly. Where no
step's duration has been seen, tau comes from the cost model's coefficients if it has them, else from those of a
Llama-7B on an A10G.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel, StepTime
from justitia_scheduling.core.model import Step
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.core.tailslope import TailSlope
from justitia_vocabulary.policies import HIGHEST_GAMMA, LOWEST_GAMMA, Knob
from justitia_vocabulary.units import Seconds, Tokens

UNSEEN = StepTime(per_step=0.03, per_token=0.00025, per_kv_token=0.00000107)
SMOOTHING = 0.02
"""A step's part in the moving averages: half of their weight is on the last 34 steps."""


def boost(work: Seconds, gamma: float) -> Seconds:
    """b_gamma(work); infinite where there is no work."""
    return -math.log(-math.expm1(-gamma * work)) / gamma if gamma * work > 0 else math.inf


@dataclass(slots=True)
class _Average:
    seconds: Seconds = 0.0
    tokens: float = 0.0

    def observe(self, seconds: Seconds, tokens: Tokens, steps: int) -> None:
        """`steps` equal steps took `seconds` and processed `tokens` together."""
        part = 1 - (1 - SMOOTHING) ** steps
        self.seconds += part * (seconds / steps - self.seconds)
        self.tokens += part * (tokens / steps - self.tokens)


@dataclass(slots=True)
class TokenTime:
    """Engine seconds for each token prefilled and decoded. Recomputation counts as prefill. O(progress) a step."""

    unseen: StepTime = UNSEEN
    _prefill: _Average = field(default_factory=_Average)
    _decode: _Average = field(default_factory=_Average)

    def observe(self, step: Step) -> None:
        decoded = sum(p.produced for p in step.progress)
        prefilled = sum(p.prefilled + p.recomputed for p in step.progress)
        if not step.duration or not decoded + prefilled:
            return
        steps = max(1, *(p.produced for p in step.progress))
        each = step.duration / (decoded + prefilled)
        for average, tokens in ((self._prefill, prefilled), (self._decode, decoded)):
            if tokens:
                average.observe(each * tokens, tokens, steps)

    def prefill(self) -> Seconds:
        seen = self._prefill
        return seen.seconds / seen.tokens if seen.tokens else self.unseen.per_token

    def decode(self, running: int) -> Seconds:
        """Where no step has been seen, `running` requests share the fixed time of one."""
        seen = self._decode
        if seen.tokens:
            return seen.seconds / seen.tokens
        return self.unseen.per_token + self.unseen.per_step / max(running, 1)


def signal(request: OpenRequest) -> Tokens:
    """w, the tokens that a request is known to need."""
    return max(request.processed, request.request.prompt_tokens)


class Boosting:
    """Gamma, its bounds, and what work is in engine seconds."""

    def __init__(self, cost_model: CostModel) -> None:
        self.tail = TailSlope()
        self.token_time = TokenTime(cost_model.step_time or UNSEEN)

    def bound(self, knobs: Mapping[Knob, float], policy: str) -> None:
        """Keep gamma between these knobs, or their defaults. Raises ValueError, which names the policy."""
        floor, ceiling = knobs.get(Knob.GAMMA_FLOOR, LOWEST_GAMMA), knobs.get(Knob.GAMMA_CEILING, HIGHEST_GAMMA)
        try:
            self.tail.bound(floor, ceiling)
        except ValueError as error:
            raise ValueError(f"policy {policy} takes no such gammaFloor and gammaCeiling: {error}") from None

    def work(self, request: OpenRequest, tokens: Tokens, running: int) -> Seconds:
        """Engine seconds of so many tokens with the request's mix of prefill and decode, while so many run."""
        known = max(signal(request), 1)
        prefill, decode = self.token_time.prefill(), self.token_time.decode(running)
        return tokens * ((known - request.produced) * prefill + request.produced * decode) / known

    def arrival(self, request: OpenRequest, work: Seconds) -> Seconds:
        """The request's arrival minus its boost."""
        return request.arrival - boost(work, self.tail.gamma)

    def report(self, running: int) -> PolicyReport:
        return PolicyReport(
            gamma=self.tail.gamma,
            gamma_estimate=self.tail.estimate,
            prefill_time=self.token_time.prefill(),
            decode_time=self.token_time.decode(running),
        )


class Boosted(Policy):
    """A policy whose order is arrival - b_gamma(work), for all requests."""

    parts: ClassVar[tuple[str, ...]] = ("boostedArrival",)
    knobs: ClassVar[frozenset[Knob]] = frozenset({Knob.GAMMA_FLOOR, Knob.GAMMA_CEILING})

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self.boosting = Boosting(cost_model)

    def tune(self, values: Mapping[Knob, float]) -> None:
        super().tune(values)
        self.boosting.bound(values, type(self).__name__)

    def report(self) -> PolicyReport:
        return self.boosting.report(len(self.running))

    def on_stepped(self, step: Step, now: Seconds) -> None:
        self.boosting.token_time.observe(step)

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        if finished:
            self.boosting.tail.observe(now - request.arrival)
