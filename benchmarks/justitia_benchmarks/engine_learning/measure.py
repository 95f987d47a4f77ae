"""Everything of a plan that has no result yet, on one running pool."""

import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, repeat
from pathlib import Path
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from justitia_benchmarks.engine.servers import on_one_core
from justitia_benchmarks.engine.store import Cell, Store
from justitia_benchmarks.engine_learning.curve import SEED, learned
from justitia_benchmarks.engine_learning.plan import LOAD, Contended, PastRuns, Plan, contended_cells
from justitia_benchmarks.engine_learning.serving import LearningBench, learning_bench
from justitia_benchmarks.engine_learning.workload import (
    TellingRun,
    class_of,
    contended,
    filling,
    known_of,
    make_model,
    past_rounds,
)
from justitia_benchmarks.experiments.learning.completion import learned_models, predictions_of
from justitia_cli.console import errors
from justitia_cli.runtime import ensure_engine
from justitia_scheduling.model import ApplicationId, KVTokenTime, Seconds
from justitia_simulator.prediction import Prediction

FULL_STEP = "full-step"
UNSERVED = 0
"""Seed of past runs and of those that measure the engine. The contended ones begin with 1."""

C = TypeVar("C", bound=Cell)


class Measuring:
    """`advance` hears of each cell that has a result."""

    def __init__(self, plan: Plan, store: Store, bench: LearningBench, advance: Callable[[Cell], None]) -> None:
        self._plan = plan
        self._store = store
        self._bench = bench
        self._advance = advance

    def run(self) -> None:
        first, *others = past_cells(self._plan)
        self._each([first], self._learn)
        self._contend(first)
        self._each(others, self._learn)

    def _each(self, cells: Iterable[C], measured: Callable[[C], dict[str, object]]) -> None:
        for cell in cells:
            if self._store.read(cell) is None:
                self._store.write(cell, measured(cell))
                self._advance(cell)

    def _learn(self, cell: PastRuns) -> dict[str, object]:
        """By class."""
        rounds, folder = past_runs(cell), self._folder(cell)
        self._bench.serve_past(rounds, folder)
        samples = self._bench.samples(folder)
        written: dict[ApplicationId, list[KVTokenTime]] = {application: [] for application in samples}
        for each in chain.from_iterable(rounds):
            written[each.run.application].append(each.run.cost)
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as processes:
            found = processes.map(learned, samples.values(), written.values(), repeat(self._plan))
            return {class_of(a): own for a, own in zip(samples, found, strict=True)}

    def _contend(self, first: PastRuns) -> None:
        plan = self._plan
        cells = [cell for cell in contended_cells(plan) if self._store.read(cell) is None]
        if not cells:
            return
        samples = self._bench.samples(self._folder(first))
        models = learned_models({a: own[: plan.learned_from] for a, own in samples.items()}, SEED)
        past = list(chain.from_iterable(past_runs(first)))
        step = self._full_step()

        def told(runs: Sequence[TellingRun], name: str) -> Prediction:
            return next(p for p in predictions_of(models, known_of(runs, past)) if p.name == name)

        def complete(cell: Contended) -> dict[str, object]:
            runs = contended(plan.runs, cell.seed, LOAD, step, first.degree)
            return self._bench.complete(runs, told(runs, cell.told))

        self._each(cells, complete)

    def _full_step(self) -> Seconds:
        """An engine's first steps are slow: they do not count."""
        known: Seconds | None = self._store.read_once(FULL_STEP)
        if known is None:
            runs = filling(self._plan.runs, UNSERVED, self._plan.degrees[0])
            self._bench.full_step(runs)
            known = self._bench.full_step(runs)
            self._store.write_once(FULL_STEP, known)
        return known

    def _folder(self, cell: PastRuns) -> Path:
        return (self._store.folder / f"samples-{cell.degree:g}").resolve()


def past_cells(plan: Plan) -> list[PastRuns]:
    return [PastRuns(plan, degree) for degree in plan.degrees]


def past_runs(cell: PastRuns) -> list[list[TellingRun]]:
    return list(past_rounds(cell.plan.past, cell.plan.at_once, cell.degree, UNSERVED))


def measure(plan: Plan, store: Store) -> None:
    cells: list[Cell] = [*past_cells(plan), *contended_cells(plan)]
    missing = sum(store.read(cell) is None for cell in cells)
    if not missing:
        return
    runtime = on_one_core(ensure_engine(errors.print, "cpu"))
    texts = [each for cell in past_cells(plan) for each in chain.from_iterable(past_runs(cell))]
    texts += [each for seed in range(plan.seeds + 1) for each in filling(plan.runs, seed, plan.degrees[0])]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        model = make_model(directory / "model", texts)
        with (
            learning_bench(directory, runtime, model, errors.print) as bench,
            Progress(*columns, console=errors) as bar,
        ):
            task = bar.add_task("", total=missing)
            Measuring(plan, store, bench, lambda cell: bar.update(task, advance=1, description=cell.text)).run()
