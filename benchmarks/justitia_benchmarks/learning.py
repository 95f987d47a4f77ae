"""`python -m justitia_benchmarks.learning`: what predictors of runs' costs are worth, in simulation."""

from pathlib import Path
from typing import Annotated

import typer

from justitia_benchmarks.experiments.learning import EXPERIMENTS
from justitia_benchmarks.main import run_and_report


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="Few seeds: a look in minutes")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes; one per core unless given")] = None,
) -> None:
    """How far predictions are off, by kind of model and runs learned from, and what they do for completion times.

    Results of single cells are kept in out/reproduce: an interrupted run goes on. The whole run writes
    docs/results/learning, --quick out/learning-quick.
    """
    folder = Path("out/learning-quick") if quick else Path("docs/results/learning")
    note = "**A look, with few seeds.**" if quick else ""
    plan = {e: e.cells(quick) for e in EXPERIMENTS}
    run_and_report(plan, folder, jobs, command="make bench-learning", note=note)


if __name__ == "__main__":
    typer.run(bench)
