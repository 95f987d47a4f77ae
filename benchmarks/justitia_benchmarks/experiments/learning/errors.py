"""How far predictions are off on runs that were not learned from, by kind of model and number of runs learned from."""

from collections.abc import Sequence
from pathlib import Path

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.learning.prompts import past_runs
from justitia_benchmarks.reports.learning import BEST, report_errors
from justitia_predictor.evaluation import errors
from justitia_predictor.sample import Sample
from justitia_predictor.training import FITS, fitted, train
from justitia_simulator.agents import CLASSES

DEGREES = (0.5, 1.0)
SAMPLES = (20, 100, 300)
UNSEEN = 200


class PredictionError:
    """Each cell learns from runs of one class and predicts others of it."""

    name = "learning-error"
    title = "Predictions of runs' costs: errors on unseen runs"
    paper = "justitia"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, degrees, samples = (2, (1.0,), (100,)) if quick else (10, DEGREES, SAMPLES)
        return [
            Cell({"application": application, "degree": degree, "samples": count}, seed)
            for application in CLASSES for degree in degrees for count in samples for seed in range(seeds)
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        application, degree, count = str(p["application"]), float(p["degree"]), int(p["samples"])
        runs = past_runs(application, count + UNSEEN, degree, cell.seed)
        samples = [r.sample for r in runs]
        return errors_by_kind(application, samples[:count], samples[count:], cell.seed)

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_errors(rows, folder)


def errors_by_kind(application: str, learned: Sequence[Sample], unseen: Sequence[Sample], seed: int) -> Figures:
    """`errors` on the unseen runs by kind of model, and of the kind that `train` chooses: `kind`."""
    costs = [s.cost for s in unseen]
    best = train(application, learned, seed)
    models = {kind: fitted(kind, application, learned, seed) for kind in FITS} | {BEST: best}
    found = {kind: errors([m.predict(s.features) for s in unseen], costs) for kind, m in models.items()}
    return {
        "kind": best.about.kind,
        "errors": {kind: {"relative": e.relative, "rank": e.rank, "log": e.log} for kind, e in found.items()},
    }
