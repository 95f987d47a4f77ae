"""Figure 9: one large run arrives first, then small ones at a constant rate. When does the large one finish?

The paper sends one small run a second. Here that is twice what the engine can serve, so the same is served with fewer:
one every 2 seconds is about what it can, one every 2.25 less. `drained` tells: the end of the last run ÷ the last
arrival.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.justitia.serving import as_served, serve
from justitia_benchmarks.reports.justitia_checks import report_starvation
from justitia_simulator.agents import agent_run
from justitia_simulator.prediction import TRUE
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import Seconds

ELEPHANT = "elephant"
INTERVALS = (1.0, 1.5, 2.0, 2.25)
POLICIES = ("vtc", "srjf", "justitia", "tiered-justitia")


class Starvation:
    """The 7B model, with more and more small runs."""

    name = "justitia-starvation"
    title = "A large run among many small ones"
    paper = "justitia"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, mice = (2, (50, 100)) if quick else (10, (100, 200, 400))
        return [
            Cell({"policy": policy, "every": every, "mice": n}, seed)
            for seed in range(seeds) for every in INTERVALS for n in mice for policy in POLICIES
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        workload = elephant_among_mice(int(p["mice"]), float(p["every"]), cell.seed)
        ends = {run.run: run.finished or 0.0 for run in serve(str(p["policy"]), workload, TRUE).runs}
        return {"elephant_jct": ends[ELEPHANT], "drained": max(ends.values()) / workload[-1].arrival}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_starvation(rows, folder)


def elephant_among_mice(mice: int, every: Seconds, seed: int) -> list[WorkloadRun]:
    """A map-reduce summary at second 0, then `mice` runs of three small classes, one `every` so many seconds."""
    rng = random.Random(f"elephant/{seed}")
    small = [
        agent_run(rng.choice(("KBQAV", "CC", "ALFWI")), f"mouse-{i}", "t0", 1.0 + every * i, rng) for i in range(mice)
    ]
    large = agent_run("MRS", ELEPHANT, "t0", 0.0, random.Random(f"elephant/{seed}/large"))
    return [as_served(run) for run in (large, *small)]
