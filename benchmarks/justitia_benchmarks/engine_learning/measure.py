"""Everything of a plan that has no result yet, on one running pool."""

import multiprocessing
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Self, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from justitia_benchmarks.engine.servers import on_one_core
from justitia_benchmarks.engine.store import FigureStore, StoredCell
from justitia_benchmarks.engine_learning.curve import SEED, learned
from justitia_benchmarks.engine_learning.plan import (
    DEGREE,
    LOAD,
    Contended,
    LearningCurve,
    LearningPlan,
    PastRuns,
    contended_cells,
)
from justitia_benchmarks.engine_learning.serving import LearningBench, learning_bench
from justitia_benchmarks.engine_learning.workload import (
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
from justitia_vocabulary.units import ApplicationId, KVTokenTime, Seconds

FULL_STEP = "full-step"
UNSERVED = 0
"""Seed of past runs and of those that measure the engine. The contended ones begin with 1."""

SAMPLES = "samples"

C = TypeVar("C", bound=StoredCell)


@dataclass(frozen=True)
class Kept:
    """`served`: which samples there are, until what serves them is another. `found`: all else, until what learns is."""

    served: FigureStore
    found: FigureStore

    @classmethod
    def in_folder(cls, folder: Path) -> Self:
        return cls(FigureStore(folder, LearningBench.__module__), FigureStore(folder, __name__))

    @property
    def samples(self) -> Path:
        return (self.served.folder / SAMPLES).resolve()


class Measuring:
    """`advance` hears of each cell that has a result."""

    def __init__(
        self, plan: LearningPlan, kept: Kept, bench: LearningBench, advance: Callable[[StoredCell], None]
    ) -> None:
        self._plan = plan
        self._kept = kept
        self._bench = bench
        self._advance = advance
        self._past = list(past_rounds(plan.past, plan.at_once, DEGREE, UNSERVED))

    def run(self) -> None:
        self._each(self._kept.served, [PastRuns(self._plan)], self._serve)
        self._each(self._kept.found, [LearningCurve(self._plan)], self._learn)
        self._contend()

    def _each(self, store: FigureStore, cells: Iterable[C], measured: Callable[[C], dict[str, object]]) -> None:
        for cell in cells:
            if store.read(cell) is None:
                store.write(cell, measured(cell))
                self._advance(cell)

    def _serve(self, cell: PastRuns) -> dict[str, object]:
        self._bench.serve_past(self._past, self._kept.samples)
        return {"runs": sum(map(len, self._past))}

    def _learn(self, cell: LearningCurve) -> dict[str, object]:
        """By class."""
        samples = self._bench.samples(self._kept.samples)
        written: dict[ApplicationId, list[KVTokenTime]] = {application: [] for application in samples}
        for each in chain.from_iterable(self._past):
            written[each.run.application].append(each.run.cost)
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as processes:
            found = processes.map(learned, samples.values(), written.values(), repeat(self._plan))
            return {class_of(a): own for a, own in zip(samples, found, strict=True)}

    def _contend(self) -> None:
        plan, found = self._plan, self._kept.found
        cells = [cell for cell in contended_cells(plan) if found.read(cell) is None]
        if not cells:
            return
        samples = self._bench.samples(self._kept.samples)
        models = learned_models({a: own[: plan.learned_from] for a, own in samples.items()}, SEED)
        past, step = list(chain.from_iterable(self._past)), self._full_step()

        def complete(cell: Contended) -> dict[str, object]:
            runs = contended(plan.runs, cell.seed, LOAD, step, DEGREE)
            known = predictions_of(models, known_of(runs, past))
            return self._bench.complete(runs, next(p for p in known if p.name == cell.told))

        self._each(found, cells, complete)

    def _full_step(self) -> Seconds:
        """An engine's first steps are slow: they do not count."""
        known: Seconds | None = self._kept.found.read_once(FULL_STEP)
        if known is None:
            runs = filling(self._plan.runs, UNSERVED, DEGREE)
            self._bench.full_step(runs)
            known = self._bench.full_step(runs)
            self._kept.found.write_once(FULL_STEP, known)
        return known


def measure(plan: LearningPlan, kept: Kept) -> None:
    found: list[StoredCell] = [LearningCurve(plan), *contended_cells(plan)]
    missing = sum(kept.found.read(cell) is None for cell in found) + (kept.served.read(PastRuns(plan)) is None)
    if not missing:
        return
    runtime = on_one_core(ensure_engine(errors.print, "cpu"))
    past = chain.from_iterable(past_rounds(plan.past, plan.at_once, DEGREE, UNSERVED))
    others = (each for seed in range(plan.seeds + 1) for each in filling(plan.runs, seed, DEGREE))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        model = make_model(directory / "model", [*past, *others])
        with (
            learning_bench(directory, runtime, model, errors.print) as bench,
            Progress(*columns, console=errors) as bar,
        ):
            task = bar.add_task("", total=missing)
            Measuring(plan, kept, bench, lambda cell: bar.update(task, advance=1, description=cell.text)).run()
