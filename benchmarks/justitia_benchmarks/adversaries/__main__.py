"""`python -m justitia_benchmarks.adversaries`: measure, then write the document."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from justitia_benchmarks.adversaries.measure import AttackPhase, attacked_pool, beside_adversaries, beside_neighbour
from justitia_benchmarks.engine.servers import prepared
from justitia_benchmarks.reports.adversaries import write_document
from justitia_cli.console import EXIT_INTERRUPTED, errors, fail, mistakes, output
from justitia_cli.local.errors import LocalError
from justitia_cli.local.pool import LocalPool
from justitia_cli.runtime import EngineSetupError
from justitia_vocabulary.units import Seconds

WHOLE, QUICK = (300.0, 1800.0), (30.0, 60.0)
"""Beside the neighbour, before and after; beside adversaries."""


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="Two minutes instead of forty: a look")] = False,
    enforcement: Annotated[str, typer.Option(help="Engine or Sidecar: where the order is kept")] = "Engine",
    out: Annotated[Path | None, typer.Option(help="Folder for the document")] = None,
) -> None:
    """A paying tenant on a real vLLM, alone with its share, then beside all adversaries at once.

    Leave the machine alone meanwhile: figures are times.
    """
    calm, attacked = QUICK if quick else WHOLE
    folder = out or (Path("out/bench-adversaries-quick") if quick else Path("docs/results"))
    try:
        with (
            mistakes(),
            prepared() as (runtime, directory, model),
            attacked_pool(directory / "pool", runtime, model, enforcement, errors.print) as pool,
        ):
            phases = asyncio.run(_measure(pool, calm, attacked))
    except KeyboardInterrupt:
        fail("interrupted: nothing was written", EXIT_INTERRUPTED)
    except (LocalError, EngineSetupError, RuntimeError) as error:
        fail(str(error))
    output.print(f"Results in {write_document(phases, enforcement, folder)}")


async def _measure(pool: LocalPool, calm: Seconds, attacked: Seconds) -> list[AttackPhase]:
    """The machine's speed drifts: what is compared with stands on both sides."""
    phases = []
    for measure, name, seconds in (
        (beside_neighbour, "before", calm),
        (beside_adversaries, "attacked", attacked),
        (beside_neighbour, "after", calm),
    ):
        errors.print(f"{name}: {seconds:.0f} s")
        phases.append(await measure(pool, name, seconds))
    return phases


if __name__ == "__main__":
    typer.run(bench)
