"""`python -m justitia_benchmarks.slo`: gamma moved by objectives, in simulation."""

from typing import Annotated

import typer

from justitia_benchmarks.experiments.slo import EXPERIMENTS
from justitia_benchmarks.main import run_study


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="Few seeds: a look in minutes")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes; one per core unless given")] = None,
) -> None:
    """Step responses of gamma moved by an objective, against fixed gammas and equation 9, and what is said of overload.

    Results of single cells are kept in out/reproduce: an interrupted run goes on. The whole run writes
    docs/results/slo, --quick out/slo-quick.
    """
    run_study("slo", EXPERIMENTS, quick=quick, jobs=jobs)


if __name__ == "__main__":
    typer.run(bench)
