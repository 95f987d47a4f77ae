"""`python -m justitia_benchmarks.engine_learning`: measure what has no result yet, then write the document."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from justitia_benchmarks.engine_learning.measure import Kept, measure
from justitia_benchmarks.engine_learning.plan import QUICK, WHOLE, LearningCurve, contended_cells
from justitia_benchmarks.reports.engine_learning import write_document
from justitia_cli.console import EXIT_INTERRUPTED, fail, mistakes, output
from justitia_cli.local.errors import LocalError
from justitia_cli.runtime import EngineSetupError


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="Few runs and two seeds: a look in some minutes")] = False,
) -> None:
    """Learn from runs that a real vLLM has served behind a real sidecar, and serve others with what was learned.

    Results are kept in out/bench-learning-engine: a run that was interrupted goes on where it was. Leave the machine
    alone meanwhile: completion times are measured.
    """
    plan, name = (QUICK, "bench-learning-engine-quick") if quick else (WHOLE, "bench-learning-engine")
    folder = Path("out") / name / "document" if quick else Path("docs/results")
    kept = Kept.in_folder(Path("out") / name)
    try:
        with mistakes():
            measure(plan, kept)
    except KeyboardInterrupt:
        fail("interrupted; the same command goes on from here", EXIT_INTERRUPTED)
    except (LocalError, EngineSetupError, RuntimeError) as error:
        fail(str(error))
    learned: Mapping[str, Any] = kept.found.read(LearningCurve(plan)) or {}
    contended = [(cell, figures) for cell in contended_cells(plan) if (figures := kept.found.read(cell)) is not None]
    output.print(f"Results in {write_document(plan, learned, contended, folder)}")


if __name__ == "__main__":
    typer.run(bench)
