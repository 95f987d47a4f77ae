"""Figure 10: the mean JCT when each run's cost is told wrong by a random factor in [1/x, x], x = 1 to 3.

The factors are log-uniform, drawn per run and the same for all policies (`noisy:x` of the simulator).
"""

from collections.abc import Sequence
from pathlib import Path

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.agent_runs import jcts
from justitia_benchmarks.experiments.justitia.serving import serve, suite
from justitia_benchmarks.reports.justitia_checks import report_misprediction
from justitia_benchmarks.statistics import quantile
from justitia_simulator.prediction import noisy

FACTORS = (1.0, 1.5, 2.0, 3.0)
POLICIES = ("justitia", "tiered-justitia", "srjf")


class Misprediction:
    """The 7B model at 2x."""

    name = "justitia-misprediction"
    title = "Costs told wrong by a factor"
    paper = "justitia"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, count, factors = (2, 100, (1.0, 3.0)) if quick else (10, 300, FACTORS)
        return [
            Cell({"policy": policy, "factor": factor, "runs": count}, seed)
            for seed in range(seeds) for factor in factors for policy in POLICIES
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        workload = suite(cell.seed, "2x", int(p["runs"]))
        own = list(jcts(serve(str(p["policy"]), workload, noisy(float(p["factor"]), cell.seed))).values())
        return {"mean": sum(own) / len(own), "p90": quantile(own, 0.9)}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_misprediction(rows, folder)
