"""Figure 9: does a large run starve among small ones?"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Cell, Claim, Figures, Row, Verdict
from justitia_benchmarks.experiments.justitia.serving import jcts, serve
from justitia_benchmarks.statistics import Estimate, mean_interval, paired_ratio
from justitia_simulator.agents import agent_run
from justitia_simulator.prediction import TRUE
from justitia_simulator.workload import WorkloadRun

ELEPHANT = "elephant"


class Starvation:
    """Figure 9: one large run arrives first, then a small one each second. When does the large one finish?"""

    name = "justitia-starvation"
    title = "A large run among many small ones"
    paper = "justitia"
    policies = ("fcfs", "parrot", "vtc", "srjf", "justitia", "tiered-justitia")

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, mice = (2, (20, 60)) if quick else (10, (50, 100, 200, 400))
        return [
            Cell({"policy": policy, "mice": n}, seed)
            for seed in range(seeds) for n in mice for policy in self.policies
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        workload = elephant_among_mice(int(cell.parameters["mice"]), cell.seed)
        return {"elephant_jct": jcts(serve(str(cell.parameters["policy"]), workload, TRUE))[ELEPHANT]}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        mice = sorted({int(cell.parameters["mice"]) for cell, _ in rows})
        jct = {(policy, n): _jcts(rows, policy, n) for policy in self.policies for n in mice}
        write_table(
            folder / "elephant-jct.md",
            ["policy", *(f"{n} small runs" for n in mice)],
            [[policy, *(mean_interval(jct[policy, n]).text for n in mice)] for policy in self.policies],
        )
        growth = {policy: paired_ratio(jct[policy, mice[-1]], jct[policy, mice[0]]) for policy in self.policies}
        return [_bounded(policy, growth, mice) for policy in ("justitia", "tiered-justitia")]


def _jcts(rows: Sequence[Row], policy: str, mice: int) -> list[float]:
    wanted = {"policy": policy, "mice": mice}
    return [float(str(figures["elephant_jct"])) for cell, figures in rows if cell.parameters == wanted]


def _bounded(policy: str, growth: Mapping[str, Estimate], mice: Sequence[int]) -> Claim:
    e = growth[policy]
    return Claim(
        claim=f"JCT of a large run among {mice[-1]} small ones ÷ among {mice[0]}, under {policy}",
        paper="bounded; SRJF grows without end (figure 9)",
        ours=e,
        verdict=Verdict.REACHED if e.high <= 1.1 else Verdict.NOT_REACHED,
        why=f"reached: interval ends below 1.1; SRJF {growth['srjf'].text}",
    )


def elephant_among_mice(mice: int, seed: int) -> list[WorkloadRun]:
    """A map-reduce summary at second 0, then `mice` runs of three small classes, one each second."""
    rng = random.Random(f"elephant/{seed}")
    small = [agent_run(rng.choice(("KBQAV", "CC", "ALFWI")), f"mouse-{i}", "t0", 1.0 + i, rng) for i in range(mice)]
    return [agent_run("MRS", ELEPHANT, "t0", 0.0, random.Random(f"elephant/{seed}/large")), *small]
