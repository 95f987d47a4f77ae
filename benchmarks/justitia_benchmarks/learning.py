"""`python -m justitia_benchmarks.learning`: what predictors of runs' costs are worth, in simulation."""

from typing import Annotated

import typer

from justitia_benchmarks.experiments.learning import EXPERIMENTS
from justitia_benchmarks.main import run_study


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="Few seeds: a look in minutes")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes; one per core unless given")] = None,
) -> None:
    """How far predictions are off, by kind of model and runs learned from, and what they do for completion times.

    Results of single cells are kept in out/reproduce: an interrupted run goes on. The whole run writes
    docs/results/learning, --quick out/learning-quick.
    """
    run_study("learning", EXPERIMENTS, quick=quick, jobs=jobs)


if __name__ == "__main__":
    typer.run(bench)
