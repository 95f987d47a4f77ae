"""What a run's policy learns when the run arrives: cost and tokens of the whole run, and each request's output.

`true`: what will happen. `mean`: the workload's `predicted_cost`, else nothing, so that the policy takes the
application's running mean. `none`: one constant for all. `noisy:F`: the truth, the run's figures and every output each
times exp(u), u uniform in [-ln F, ln F]. `liars:SHARE:DIVISOR`: that share of the runs, those with the largest cost,
claim their figures divided by DIVISOR; each request's output and everyone else's figures are true.

What is drawn depends on the seed and the run's name only: every policy of a seed is told the same.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import KVTokenTime, RunId

NO_KNOWLEDGE_COST = 100_000.0
"""KV token-time that every run is said to cost where nothing is known: a small agent's."""

NO_KNOWLEDGE_PROMPT, NO_KNOWLEDGE_OUTPUTS = 1_600.0, 200.0
"""Tokens that every run is said to read and to produce where nothing is known: four calls."""

NO_KNOWLEDGE_OUTPUT = 100.0
"""Output tokens that every request is said to produce where nothing is known."""


@dataclass(frozen=True, slots=True)
class Told:
    """One run's figures as a policy learns them. `cost` is in KV token-time; prompt and output tokens are sums over its
    requests. `outputs` has each request's output tokens, in the order of `WorkloadRun.requests`. None: nothing is told.
    """

    cost: KVTokenTime | None
    outputs: Sequence[float | None]
    prompt_tokens: float | None = None
    output_tokens: float | None = None

    def scaled(self, factor: float) -> "Told":
        """The run's figures times `factor`; its requests' as they are."""
        whole = (self.cost, self.prompt_tokens, self.output_tokens)
        cost, prompt, output = (None if figure is None else figure * factor for figure in whole)
        return Told(cost, self.outputs, prompt, output)


@dataclass(frozen=True, slots=True)
class PredictionSource:
    """A named way of predicting. `tell` sees the whole workload, because some depend on the other runs."""

    name: str
    tell: Callable[[Sequence[WorkloadRun]], dict[RunId, Told]]


def _each(told: Callable[[WorkloadRun], Told]) -> Callable[[Sequence[WorkloadRun]], dict[RunId, Told]]:
    return lambda workload: {run.id: told(run) for run in workload}


def _truth(run: WorkloadRun) -> Told:
    outputs = [float(r.output_tokens) for r in run.requests]
    return Told(float(run.cost), outputs, float(sum(r.prompt_tokens for r in run.requests)), sum(outputs))


def _nothing(run: WorkloadRun) -> Told:
    outputs = [NO_KNOWLEDGE_OUTPUT] * len(run.requests)
    return Told(NO_KNOWLEDGE_COST, outputs, NO_KNOWLEDGE_PROMPT, NO_KNOWLEDGE_OUTPUTS)


TRUE = PredictionSource("true", _each(_truth))
MEAN = PredictionSource("mean", _each(lambda run: Told(run.predicted_cost, [None] * len(run.requests))))
NONE = PredictionSource("none", _each(_nothing))

PREDICTIONS = {p.name: p for p in (TRUE, MEAN, NONE)}
FORMS = (*PREDICTIONS, "noisy:FACTOR", "liars:SHARE:DIVISOR")


def noisy(factor: float, seed: int) -> PredictionSource:
    """The truth, off by up to `factor`. Raises ValueError if that is below 1 or not finite."""
    if not 1 <= factor < math.inf:
        raise ValueError(f"prediction noisy:{factor:g}: the factor must be finite and at least 1")
    spread = math.log(factor)

    def told(run: WorkloadRun) -> Told:
        rng = random.Random(f"{seed}/noisy/{run.id}")
        whole = _truth(run).scaled(math.exp(rng.uniform(-spread, spread)))
        outputs = [r.output_tokens * math.exp(rng.uniform(-spread, spread)) for r in run.requests]
        return replace(whole, outputs=outputs)

    return PredictionSource(f"noisy:{factor:g}", _each(told))


def liars(share: float, divisor: float) -> PredictionSource:
    """The largest runs understate their cost. Raises ValueError for a share beyond [0, 1] or a divisor below 1."""
    if not 0 <= share <= 1:
        raise ValueError(f"prediction liars:{share:g}:{divisor:g}: the share must be from 0 to 1")
    if not 1 <= divisor < math.inf:
        raise ValueError(f"prediction liars:{share:g}:{divisor:g}: the divisor must be finite and at least 1")

    def tell(workload: Sequence[WorkloadRun]) -> dict[RunId, Told]:
        largest = sorted(workload, key=lambda run: run.cost, reverse=True)[: round(share * len(workload))]
        lying = {run.id for run in largest}
        return {run: told.scaled(1 / divisor) if run in lying else told for run, told in TRUE.tell(workload).items()}

    return PredictionSource(f"liars:{share:g}:{divisor:g}", tell)


def find_prediction(name: str, seed: int = 1) -> PredictionSource:
    """The prediction of that name. Raises ValueError that says what is wrong with it."""
    match name.split(":"):
        case [plain] if plain in PREDICTIONS:
            return PREDICTIONS[plain]
        case ["noisy", factor]:
            return noisy(_number(factor, name), seed)
        case ["liars", share, divisor]:
            return liars(_number(share, name), _number(divisor, name))
    raise ValueError(f"unknown prediction {name!r}: choose one of {', '.join(FORMS)}")


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"prediction {name}: {text!r} is not a number") from None
