"""A load that no gamma holds: that it is said, when, and whether the replicas that are named would do.

The load grows to four times, almost two and a half times what the engine sustains. The same requests are then served by
as many engines as were named last, by one fewer, and by one more.
"""

from collections.abc import Sequence
from pathlib import Path

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.slo.serving import (
    END,
    OBJECTIVE,
    STEP,
    WINDOW,
    LoadPhase,
    LoadStep,
    attained,
    serve,
    workload,
)
from justitia_benchmarks.reports.slo import report_overload
from justitia_vocabulary.objectives import ObjectiveState

FOURFOLD = LoadStep(LoadPhase(3.0, 0.2, 1.5), LoadPhase(12.0, 0.2, 1.5))
SETTLED = STEP + 60.0


class Overload:
    """`held`: the share of windows that are, from a minute after the step on, by engines; `said` after the step, s."""

    name = "slo-overload"
    title = "A load that no gamma holds"
    paper = "ours"

    def cells(self, quick: bool) -> Sequence[Cell]:
        return [Cell({"scenario": "load times four"}, seed) for seed in range(2 if quick else 10)]

    def run(self, cell: Cell) -> Figures:
        runs = workload(FOURFOLD, cell.seed)
        looks = [look for look in serve(runs, FOURFOLD).looks if look.now <= END]
        said = [
            look for look in looks if look.decision.standings[OBJECTIVE].state is ObjectiveState.UNATTAINABLE
        ]  # fmt: skip
        named = [look.decision.replicas for look in said if look.decision.replicas is not None]
        tried = sorted({1, *(named[-1] + more for more in (-1, 0, 1))} - {0}) if named else [1, 2, 3, 4]
        starts = [SETTLED + i * WINDOW for i in range(int((END - SETTLED) / WINDOW))]
        held = {}
        for engines in tried:
            served = serve(runs, FOURFOLD, engines)
            held[str(engines)] = sum(attained(served, FOURFOLD, s) >= FOURFOLD.percentile for s in starts) / len(starts)
        return {
            "said": said[0].now - STEP if said else None,
            "before": sum(look.now <= STEP for look in said),
            "named": named[-1] if named else None,
            "held": held,
        }

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_overload(rows, folder)
