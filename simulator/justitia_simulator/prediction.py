"""What a policy is told of a run when it arrives: the run's cost, its compute, and each request's output.

`true`: what will happen. `mean`: the workload's `predicted_cost`, else nothing, so that the policy takes the
application's running mean. `none`: one constant for all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from justitia_scheduling.model import KVTokenTime, RunId
from justitia_simulator.workload import WorkloadRun

NO_KNOWLEDGE_COST = 100_000.0
"""KV token-time that every run is said to cost where nothing is known: a small agent's."""

NO_KNOWLEDGE_COMPUTE = 2_000.0
"""p + 2d, in weighted tokens, that every run is said to take where nothing is known."""

NO_KNOWLEDGE_OUTPUT = 100.0
"""Output tokens that every request is said to produce where nothing is known."""


@dataclass(frozen=True, slots=True)
class Told:
    """`cost` of the run; `outputs` of its requests, in the order of `WorkloadRun.requests`; the run's p + 2d.

    None: nothing is told.
    """

    cost: KVTokenTime | None
    outputs: Sequence[float | None]
    compute: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A named way of predicting. `tell` sees the whole workload, because some depend on the other runs."""

    name: str
    tell: Callable[[Sequence[WorkloadRun]], dict[RunId, Told]]


def _each(told: Callable[[WorkloadRun], Told]) -> Callable[[Sequence[WorkloadRun]], dict[RunId, Told]]:
    return lambda workload: {run.id: told(run) for run in workload}


TRUE = Prediction(
    "true", _each(lambda run: Told(float(run.cost), [float(r.output_tokens) for r in run.requests], run.compute))
)
MEAN = Prediction("mean", _each(lambda run: Told(run.predicted_cost, [None] * len(run.requests))))
NONE = Prediction(
    "none",
    _each(lambda run: Told(NO_KNOWLEDGE_COST, [NO_KNOWLEDGE_OUTPUT] * len(run.requests), NO_KNOWLEDGE_COMPUTE)),
)

PREDICTIONS = {p.name: p for p in (TRUE, MEAN, NONE)}


def find_prediction(name: str) -> Prediction:
    """The prediction of that name. Raises ValueError that lists the names it knows."""
    try:
        return PREDICTIONS[name]
    except KeyError:
        raise ValueError(f"unknown prediction {name!r}: choose one of {', '.join(sorted(PREDICTIONS))}") from None
