"""What predictions do for completion times: from nothing known to all known.

*cold start*: nothing is known of any application when the first run comes. *running mean*: each run is told its class's
mean of past runs. *mlp*, *best*: each is told what a model says that learned from as many past runs (`best`: whatever
kind did best on held-out ones). *true*: the run's cost.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.agent_runs import jcts
from justitia_benchmarks.experiments.justitia.serving import serve, suite
from justitia_benchmarks.experiments.learning.prompts import past_runs, written
from justitia_benchmarks.reports.learning import BEST, report_completion
from justitia_benchmarks.statistics import quantile
from justitia_predictor.artifact import Artifact
from justitia_predictor.features import Features
from justitia_predictor.models import Network, RunningMean
from justitia_predictor.sample import Sample
from justitia_predictor.training import fitted, train
from justitia_simulator.agents import CLASSES
from justitia_simulator.prediction import MEAN, TRUE, PredictionSource, Told
from justitia_simulator.records import RunResult
from justitia_simulator.summary import largest_decile
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import RunId, Seconds

POLICIES = ("justitia", "tiered-justitia")
LEARNED_FROM = 100
PAST = 10_000
"""Added to the seed of past runs: none of them is served."""

Models = Mapping[str, Mapping[str, Artifact]]
"""By kind, or `BEST`, and application."""


class LearnedCompletion:
    """Each cell serves one workload under one policy, with every prediction."""

    name = "learning-completion"
    title = "Completion times with predictions that were learned"
    paper = "justitia"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, count, degrees = (2, 100, (1.0,)) if quick else (10, 300, (0.5, 1.0))
        return [
            Cell({"policy": policy, "degree": degree, "runs": count}, seed)
            for policy in POLICIES for degree in degrees for seed in range(seeds)
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        policy, degree = str(p["policy"]), float(p["degree"])
        workload = suite(cell.seed, "2x", int(p["runs"]))
        found = {}
        for prediction in predictions(workload, cell.seed, degree):
            results = serve(policy, workload, prediction)
            own = list(jcts(results).values())
            found[prediction.name] = {
                "mean": fmean(own),
                "p99": quantile(own, 0.99),
                "largest_decile": fmean([run.jct for run in largest_decile(results.runs) if run.jct is not None]),
                "classes": _by_class(results.runs),
            }
        return found

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_completion(rows, folder)


def _by_class(runs: Sequence[RunResult]) -> dict[str, Seconds]:
    """Mean completion time of the runs of each class that there is."""
    times: dict[str, list[Seconds]] = {}
    for run in runs:
        if run.jct is not None:
            times.setdefault(run.application, []).append(run.jct)
    return {name: fmean(times[name]) for name in CLASSES if name in times}


def predictions(workload: Sequence[WorkloadRun], seed: int, degree: float) -> list[PredictionSource]:
    learned = {c: [r.sample for r in past_runs(c, LEARNED_FROM, degree, PAST + seed)] for c in CLASSES}
    features = {run.id: written(run, f"{seed}/run/{run.id.removeprefix('r')}", degree).features for run in workload}
    return predictions_of(learned_models(learned, seed), features)


def learned_models(learned: Mapping[str, Sequence[Sample]], seed: int) -> Models:
    """From samples by application."""
    of_kinds = {
        kind: {a: fitted(kind, a, samples, seed) for a, samples in learned.items()}
        for kind in (RunningMean.kind, Network.kind)
    }
    return of_kinds | {BEST: {a: train(a, samples, seed) for a, samples in learned.items()}}


def predictions_of(models: Models, features: Mapping[RunId, Features]) -> list[PredictionSource]:
    """In the order of `ORDER`: with nothing known, what the models say of runs with these features, with all known."""
    return [
        PredictionSource("cold start", MEAN.tell),
        *(_by_models(kind, own, features) for kind, own in models.items()),
        TRUE,
    ]


def _by_models(name: str, models: Mapping[str, Artifact], features: Mapping[RunId, Features]) -> PredictionSource:
    """`models` by class."""

    def tell(workload: Sequence[WorkloadRun]) -> dict[RunId, Told]:
        return {
            run.id: Told(models[run.application].predict(features[run.id]), [None] * len(run.requests))
            for run in workload
        }

    return PredictionSource(name, tell)
