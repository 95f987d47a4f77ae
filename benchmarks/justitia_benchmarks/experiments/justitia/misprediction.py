"""Figure 10: the mean JCT when each run's cost is told wrong by a random factor in [1/x, x], x = 1 to 3."""

import math
import random
from collections.abc import Sequence
from pathlib import Path

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.justitia.serving import jcts, serve, suite
from justitia_benchmarks.reports.justitia import report_misprediction
from justitia_simulator.prediction import Prediction, Told

FACTORS = (1.0, 1.5, 2.0, 2.5, 3.0)
POLICIES = ("justitia", "tiered-justitia", "srjf")


class Misprediction:
    """Log-uniform factors, drawn per run and the same for all policies."""

    name = "justitia-misprediction"
    title = "Costs told wrong by a factor"
    paper = "justitia"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, count, factors = (2, 100, (1.0, 3.0)) if quick else (20, 300, FACTORS)
        return [
            Cell({"policy": policy, "factor": factor, "runs": count}, seed)
            for seed in range(seeds) for factor in factors for policy in POLICIES
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        workload = suite(cell.seed, "2x", int(p["runs"]))
        own = jcts(serve(str(p["policy"]), workload, wrong_by(float(p["factor"]), cell.seed)))
        return {"mean": sum(own.values()) / len(own)}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_misprediction(rows, folder)


def wrong_by(factor: float, seed: int) -> Prediction:
    """Each run's cost times a factor that is log-uniform in [1/factor, factor]."""
    rng, width = random.Random(f"{seed}/wrong"), math.log(factor)

    return Prediction(
        f"noisy:{factor:g}",
        lambda workload: {
            run.id: Told(run.cost * math.exp(rng.uniform(-width, width)), [None] * len(run.requests))
            for run in workload
        },
    )
