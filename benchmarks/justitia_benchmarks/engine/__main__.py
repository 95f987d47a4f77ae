"""`python -m justitia_benchmarks.engine`: measure what has no result yet, then write the document."""

import asyncio
import time
from pathlib import Path
from typing import Annotated

import typer

from justitia_benchmarks.engine import turns
from justitia_benchmarks.engine.measure import STOCK, Bench
from justitia_benchmarks.engine.overhead import measure_steps
from justitia_benchmarks.engine.plan import QUICK, WHOLE, EngineCell, EnginePlan, cells, sized
from justitia_benchmarks.engine.saturation import SATURATED_BLOCKS, measure_saturated
from justitia_benchmarks.engine.servers import prepared, running_pools
from justitia_benchmarks.engine.store import FigureStore, prompt_seed, tracked
from justitia_benchmarks.engine.tail import TailBench, measure_tail, read_tail
from justitia_benchmarks.engine.tail_plan import QUICK_TAIL, WHOLE_TAIL
from justitia_benchmarks.engine.turns_serving import TurnsBench, measure_turns
from justitia_benchmarks.engine.workload import all_at_once, applications, draw
from justitia_benchmarks.reports.engine import write_document
from justitia_benchmarks.reports.engine_cost import write_cost_document
from justitia_benchmarks.reports.engine_tail import write_tail_document
from justitia_benchmarks.reports.engine_turns import write_turns_document
from justitia_cli.console import EXIT_INTERRUPTED, errors, fail, mistakes, output
from justitia_cli.local.errors import LocalError
from justitia_cli.local.launch import LocalModel
from justitia_cli.runtime import EngineSetupError
from justitia_vocabulary.units import Seconds

FILLING_RUNS = 40
MOST_CLASSES_RUNS = 250
"""Among so many runs are those of every class and tenant."""
FULL_STEP, STEPS, SATURATED = "full-step", "steps", "saturated"
QUICK_STEPS, WHOLE_STEPS = (80, 2), (1000, 5)
"""Steps, and in how many layouts in memory."""
QUICK_ROUNDS, WHOLE_ROUNDS = 2, 30


def bench(
    *,
    quick: Annotated[bool, typer.Option(help="Two seeds, one load, few ways: a look in some minutes")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for document and plots")] = None,
) -> None:
    """Serve the agent classes on a real vLLM under each policy, inside it and in front of it.

    Results are kept in out/bench-engine: a run that was interrupted goes on where it was. Leave the machine alone
    meanwhile: figures are times.
    """
    plan, sessions, tail = (QUICK, turns.QUICK, QUICK_TAIL) if quick else (WHOLE, turns.WHOLE, WHOLE_TAIL)
    kept = Path("out") / ("bench-engine-quick" if quick else "bench-engine")
    folder = out or (kept / "document" if quick else Path("docs/results"))
    store, sessions_store = FigureStore(kept, Bench.__module__), FigureStore(kept, TurnsBench.__module__)
    tail_store = FigureStore(kept, TailBench.__module__)
    try:
        with mistakes():
            _measure(plan, store, quick)
            step = store.read_once(FULL_STEP)
            rows = [(cell, f) for cell in cells(sized(plan, step)) if (f := store.read(cell)) is not None]
            output.print(f"Results in {write_document(rows, step, folder=folder)}")
            output.print(f"and in {write_cost_document(store.read_once(STEPS), store.read_once(SATURATED), folder)}")
            measured = measure_turns(sessions, sessions_store)
            output.print(f"and in {write_turns_document(measured, rows, step, folder)}")
            measure_tail(tail, tail_store)
            output.print(f"and in {write_tail_document(read_tail(tail, tail_store), folder)}")
    except KeyboardInterrupt:
        fail("interrupted; the same command goes on from here", EXIT_INTERRUPTED)
    except (LocalError, EngineSetupError, RuntimeError) as error:
        fail(str(error))


def _measure(plan: EnginePlan, store: FigureStore, quick: bool) -> None:
    """Whatever has no result yet."""
    with prepared() as (runtime, directory, model):
        if store.read_once(STEPS) is None:
            store.write_once(STEPS, measure_steps(runtime, model, *(QUICK_STEPS if quick else WHOLE_STEPS)))
        if store.read_once(SATURATED) is None:
            rounds = QUICK_ROUNDS if quick else WHOLE_ROUNDS
            found = {str(b): asyncio.run(measure_saturated(runtime, model, b, rounds)) for b in SATURATED_BLOCKS}
            store.write_once(SATURATED, found)
        if (step := store.read_once(FULL_STEP)) is not None and not _missing(plan, step, store):
            return
        known = applications(all_at_once(MOST_CLASSES_RUNS, 1))
        with running_pools(directory, runtime, LocalModel(str(model), True), known, errors.print) as pools:
            bench = Bench(pools)
            if store.read_once(FULL_STEP) is None:
                _full_step(bench, seed=1)
                store.write_once(FULL_STEP, _full_step(bench, seed=2))
            step = store.read_once(FULL_STEP)
            _serve(bench, _missing(plan, step, store), step, store)


def _missing(plan: EnginePlan, step: Seconds, store: FigureStore) -> list[EngineCell]:
    return [cell for cell in cells(sized(plan, step)) if store.read(cell) is None]


def _full_step(bench: Bench, seed: int) -> Seconds:
    """What a step of the full stock engine takes. An engine's first steps are slow: they do not count."""
    runs = all_at_once(FILLING_RUNS, seed)
    steps, began = bench.steps(), time.monotonic()
    bench.serve(STOCK, runs, cell=seed, seed=seed)
    return (time.monotonic() - began) / (bench.steps() - steps)


def _serve(bench: Bench, missing: list[EngineCell], step: Seconds, store: FigureStore) -> None:
    for cell in tracked(missing):
        scenario = cell.scenario
        runs = draw(scenario.runs, cell.seed, scenario.load, step)
        store.write(cell, bench.serve(cell.way, runs, prompt_seed(cell), cell.seed))


if __name__ == "__main__":
    typer.run(bench)
