"""Step responses: the load doubles, the mix turns to long reasoning, the objective is tightened.

Each cell serves one scenario with one seed: with the controller, with equation 9 alone, and with fixed gammas, in 1/s.
"""

from collections.abc import Sequence
from pathlib import Path

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.slo.serving import (
    END,
    SCENARIOS,
    STEP,
    WINDOW,
    ServedStep,
    attained,
    serve,
    workload,
)
from justitia_benchmarks.reports.slo import CONTROLLER, EQUATION_9, report_steps
from justitia_benchmarks.statistics import quantile
from justitia_simulator.summary import ttlt
from justitia_vocabulary.units import Seconds

FIXED = (0.001, 0.003, 0.01, 0.03, 0.1)
GRID: Seconds = 5.0


class Steps:
    """`reached`: seconds from the step to the first moment from which two windows in a row are held, else None."""

    name = "slo-steps"
    title = "Steps: gamma moved by an objective, against fixed gammas and equation 9"
    paper = "ours"

    def cells(self, quick: bool) -> Sequence[Cell]:
        return [Cell({"scenario": name}, seed) for seed in range(2 if quick else 10) for name in SCENARIOS]

    def run(self, cell: Cell) -> Figures:
        scenario = SCENARIOS[str(cell.parameters["scenario"])]
        runs = workload(scenario, cell.seed)
        contenders: dict[str, ServedStep] = {
            CONTROLLER: serve(runs, scenario),
            EQUATION_9: serve(runs, None),
            **{f"{gamma:g}": serve(runs, gamma) for gamma in FIXED},
        }
        found: dict[str, object] = {}
        for name, served in contenders.items():
            after = list(ttlt(r for r in served.requests if r.ready >= STEP))
            looks = [look for look in served.looks if look.now <= END]
            found[name] = {
                "windows": [attained(served, scenario, i * WINDOW) for i in range(int(END / WINDOW))],
                "reached": _reached(served, cell),
                "completion": {f"p{p}": quantile(after, p / 100) for p in (50, 90, 99)},
                "gamma": [look.gamma for look in looks],
                "states": [
                    standing.state.value if standing.state else "" for look in looks
                    for standing in look.decision.standings.values()
                ],
            }  # fmt: skip
        return {"percentile": scenario.percentile, "contenders": found}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_steps(rows, folder, window=WINDOW, step=STEP, end=END)


def _reached(served: ServedStep, cell: Cell) -> Seconds | None:
    scenario = SCENARIOS[str(cell.parameters["scenario"])]
    moment = STEP
    while moment + 2 * WINDOW <= END:
        if all(attained(served, scenario, moment + i * WINDOW) >= scenario.percentile for i in range(2)):
            return moment - STEP
        moment += GRID
    return None
