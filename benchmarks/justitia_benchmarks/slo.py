"""`python -m justitia_benchmarks.slo`: gamma moved by objectives, in simulation."""

from pathlib import Path
from typing import Annotated

import typer

from justitia_benchmarks.experiments.slo import EXPERIMENTS
from justitia_benchmarks.main import run_and_report


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="Few seeds: a look in minutes")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes; one per core unless given")] = None,
) -> None:
    """Step responses of gamma moved by an objective, against fixed gammas and equation 9, and what is said of overload.

    Results of single cells are kept in out/reproduce: an interrupted run goes on. The whole run writes
    docs/results/slo, --quick out/slo-quick.
    """
    folder = Path("out/slo-quick") if quick else Path("docs/results/slo")
    note = "**A look, with few seeds.**" if quick else ""
    plan = {e: e.cells(quick) for e in EXPERIMENTS}
    run_and_report(plan, folder, jobs, command="make bench-slo", note=note)


if __name__ == "__main__":
    typer.run(bench)
