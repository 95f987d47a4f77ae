"""The Justitia paper's evaluation (section 5 of its second version)."""

import random
from collections.abc import Sequence
from pathlib import Path

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Cell, Claim, Experiment, Figures, Row, Verdict
from justitia_benchmarks.statistics import Estimate, mean_interval, paired_ratio
from justitia_scheduling.cost import EngineTime
from justitia_scheduling.model import ApplicationId, RunId, TenantId
from justitia_scheduling.registry import build_policy
from justitia_simulator.engine import Engine
from justitia_simulator.prediction import TRUE
from justitia_simulator.profiles import find_profile
from justitia_simulator.workload import Stage, WorkloadRequest, WorkloadRun

ELEPHANT = "elephant"


class Starvation:
    """Figure 9: one large run arrives first, then a small one each second. When does the large one finish?"""

    name = "justitia-starvation"
    title = "A large run among many small ones"
    paper = "justitia"
    policies = ("fcfs", "vtc", "justitia", "tiered-justitia")

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, mice = (2, (20, 60)) if quick else (10, (50, 100, 200, 400))
        return [
            Cell({"policy": policy, "mice": n}, seed)
            for seed in range(seeds) for n in mice for policy in self.policies
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        workload = elephant_among_mice(int(cell.parameters["mice"]), cell.seed)
        profile = find_profile("a10g-llama2-7b")
        policy = build_policy(str(cell.parameters["policy"]), EngineTime(profile.charge))
        results = Engine(policy, profile, label=policy.__class__.__name__, prediction=TRUE).serve(workload)
        return {"elephant_jct": next(run.jct for run in results.runs if run.run == ELEPHANT)}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        mice = sorted({int(cell.parameters["mice"]) for cell, _ in rows})
        jct = {(policy, n): _jcts(rows, policy, n) for policy in self.policies for n in mice}
        write_table(
            folder / "elephant-jct.md",
            ["policy", *(f"{n} small runs" for n in mice)],
            [[policy, *(mean_interval(jct[policy, n]).text for n in mice)] for policy in self.policies],
        )
        growth = paired_ratio(jct["justitia", mice[-1]], jct["justitia", mice[0]])
        return [_bounded(growth, mice)]


def _jcts(rows: Sequence[Row], policy: str, mice: int) -> list[float]:
    wanted = {"policy": policy, "mice": mice}
    return [float(str(figures["elephant_jct"])) for cell, figures in rows if cell.parameters == wanted]


def _bounded(growth: Estimate, mice: Sequence[int]) -> Claim:
    reached = growth.high <= 1.1
    return Claim(
        claim=f"The large run's JCT under Justitia does not grow with the small ones: {mice[-1]} against {mice[0]}",
        paper="bounded (figure 9)",
        ours=growth,
        verdict=Verdict.REACHED if reached else Verdict.NOT_REACHED,
        why="ratio of its JCT; reached where the interval ends below 1.1",
    )


def elephant_among_mice(mice: int, seed: int) -> list[WorkloadRun]:
    """A map-reduce summary of 24 parts at second 0, then `mice` small runs, one each second."""
    rng = random.Random(f"elephant/{seed}")
    parts = tuple(WorkloadRequest(rng.randint(400, 800), rng.randint(150, 350)) for _ in range(24))
    runs = [_run(ELEPHANT, 0.0, (Stage(parts), Stage((WorkloadRequest(2000, 300),))))]
    for i in range(mice):
        calls = tuple(WorkloadRequest(rng.randint(200, 500), rng.randint(50, 200)) for _ in range(3))
        runs.append(_run(f"mouse-{i}", 1.0 + i, (Stage(calls),)))
    return runs


def _run(name: str, arrival: float, stages: tuple[Stage, ...]) -> WorkloadRun:
    """Each run is a client of its own, as in the paper."""
    return WorkloadRun(RunId(name), TenantId(name), ApplicationId(name.split("-", maxsplit=1)[0]), arrival, stages)


EXPERIMENTS: Sequence[Experiment] = (Starvation(),)
