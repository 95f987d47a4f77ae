"""`python -m justitia_benchmarks`: run the experiments that have no result yet, then write the document."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from justitia_benchmarks.document import write_document
from justitia_benchmarks.experiment import Cell, Experiment
from justitia_benchmarks.experiments import EXPERIMENTS
from justitia_benchmarks.runner import Failure, run_experiments
from justitia_cli.console import EXIT_FAILED, EXIT_INTERRUPTED, errors, fail, mistakes, output

CACHE = Path("out/reproduce")
WHOLE = Path("docs/results")
QUICK = Path("out/results-quick")
PART = Path("out/results-part")

app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)


@app.command()
def reproduce(
    only: Annotated[list[str], typer.Option(help="Run this experiment only; repeatable")] = [],  # noqa: B006
    jobs: Annotated[int | None, typer.Option(min=1, help="Worker processes; one per core unless given")] = None,
    quick: Annotated[bool, typer.Option(help="Few seeds and small cells: a look in five minutes")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="At most this many seeds of each experiment")] = None,
) -> None:
    """Run the papers' evaluations again and write the document of what came out.

    Results are kept in out/reproduce: a run that was interrupted goes on where it was, and only what a change of the
    source concerns runs again. The whole run writes docs/results, --quick out/results-quick, any other part
    out/results-part.
    """
    with mistakes():
        plan = {e: cells_of(e, quick, seeds) for e in chosen(only)}
        folder = QUICK if quick else PART if only or seeds else WHOLE
    note = (
        ""
        if folder == WHOLE
        else "**A part of the reproduction, with fewer seeds, smaller cells or fewer experiments.**"
    )
    run_and_report(plan, folder, jobs, command="make reproduce", note=note)


def run_and_report(
    plan: Mapping[Experiment, Sequence[Cell]], folder: Path, jobs: int | None, *, command: str, note: str = ""
) -> None:
    """Run what has no result yet and write the document. Ends the process where that does not succeed."""
    try:
        failures = _run(plan, folder, jobs or os.cpu_count() or 1, command, note)
    except KeyboardInterrupt:
        fail("interrupted; the same command goes on from here", EXIT_INTERRUPTED)
    if failures:
        fail(f"{len(failures)} cells failed:\n  " + "\n  ".join(f.text for f in failures), EXIT_FAILED)


def run_study(name: str, experiments: Sequence[Experiment], *, quick: bool, jobs: int | None) -> None:
    """`make bench-{name}`: the whole into docs/results, a look with few seeds into out."""
    folder = Path(f"out/{name}-quick") if quick else Path("docs/results") / name
    note = "**A look, with few seeds.**" if quick else ""
    plan = {e: e.cells(quick) for e in experiments}
    run_and_report(plan, folder, jobs, command=f"make bench-{name}", note=note)


def _run(plan: Mapping[Experiment, Sequence[Cell]], folder: Path, jobs: int, command: str, note: str) -> list[Failure]:
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=errors
    ) as bar:
        tasks: dict[Experiment, TaskID] = {e: bar.add_task(e.name, total=len(cells)) for e, cells in plan.items()}
        outcomes = run_experiments(
            plan,
            CACHE,
            jobs=jobs,
            on_done=lambda e, done, total: bar.update(tasks[e], completed=done, total=total),
            on_failure=lambda failure: bar.console.print(f"failed: {failure.text}", markup=False),
            on_stale=lambda e, results: bar.console.print(
                f"{e.name}: {results} kept results are stale, what computes them has changed: they run again"
            ),
        )
    output.print(f"Results in {write_document(outcomes, folder, command=command, note=note)}")
    return [failure for outcome in outcomes for failure in outcome.failures]


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, all without any. Raises ValueError that lists the names it knows."""
    known = {e.name: e for e in EXPERIMENTS}
    for name in names:
        if name not in known:
            raise ValueError(f"unknown experiment {name!r}: choose one of {', '.join(known)}")
    return [known[name] for name in names] or list(EXPERIMENTS)


def cells_of(experiment: Experiment, quick: bool, seeds: int | None) -> list[Cell]:
    """The experiment's cells, of its `seeds` smallest seeds if that is given."""
    cells = experiment.cells(quick)
    kept = set(sorted({cell.seed for cell in cells})[:seeds])
    return [cell for cell in cells if cell.seed in kept]
