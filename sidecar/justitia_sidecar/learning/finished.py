"""Decides whether a run that is over becomes a sample, and what is kept of it.

A run without features, or one that cost nothing though none of its requests was aborted, is no sample. Runs with an
aborted request are kept and marked: they say that something happened, not what a run costs.
"""

from dataclasses import dataclass
from itertools import pairwise

from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.learning.prediction import RunPrediction
from justitia_vocabulary.units import KVTokenTime, Seconds


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is over, with the features packed as they are kept. `application` is its name in the store, `finished`
    the time of day in seconds since 1970. `stages` are the costs of the run's stages, which add up to `cost`.
    """

    application: str
    finished: Seconds
    aborted: bool
    cost: KVTokenTime
    stages: tuple[KVTokenTime, ...]
    features: bytes
    text: bytes | None


def finished_run(run: TrackedRun, prediction: RunPrediction, time_of_day: Seconds) -> FinishedRun | None:
    """None where the run is no sample."""
    if prediction.features is None or not (run.cost > 0 or run.aborted):
        return None
    stages = tuple(after - before for before, after in pairwise([0.0, *run.stages[:-1], run.cost]))
    return FinishedRun(
        prediction.learning.name,
        time_of_day,
        run.aborted,
        run.cost,
        stages,
        prediction.features,
        prediction.text,
    )
