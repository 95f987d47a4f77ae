"""Runs the cells of experiments in worker processes and keeps every result, so that nothing is computed twice.

A result lies in `<folder>/<experiment>/<digest of the cell>.json` and holds the digest of the source that computed it:
the scheduling and simulator packages with their data files, the experiment's own module, and every module of
`justitia_benchmarks` or `justitia_predictor` that it imports, or that such a module does, but for two that decide no
figures: the reports, which only draw, and `experiment.py`, the interface. A result of another source is stale: it is
reported and computed again. Files are written whole or not at all: a run that is interrupted, even killed, goes on
where it was.

A cell that fails is named, with its error, and the others go on. Its experiment has no report.
"""

import ast
import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from justitia_benchmarks.experiment import Cell, Experiment, Row
from justitia_simulator.files import write_bytes

WHOLE_PACKAGES = ("justitia_vocabulary", "justitia_scheduling", "justitia_simulator")
FOLLOWED_PACKAGES = ("justitia_benchmarks", "justitia_predictor")
NOT_FOLLOWED = ("reports", "experiment")


@dataclass(frozen=True)
class Failure:
    """A cell that has no result, and why."""

    experiment: str
    cell: Cell
    error: str

    @property
    def text(self) -> str:
        return f"{self.experiment} [{self.cell.text}]: {self.error}"


@dataclass
class ExperimentOutcome:
    """All rows of one experiment in the order of its cells, or the failures that keep it from a report."""

    experiment: Experiment
    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    computed: int = 0
    stale: int = 0


OnDone = Callable[[Experiment, int, int], None]
OnFailure = Callable[[Failure], None]
OnStale = Callable[[Experiment, int], None]


def run_experiments(
    plan: Mapping[Experiment, Sequence[Cell]],
    folder: Path,
    *,
    jobs: int,
    on_done: OnDone = lambda experiment, done, total: None,
    on_failure: OnFailure = lambda failure: None,
    on_stale: OnStale = lambda experiment, results: None,
) -> list[ExperimentOutcome]:
    """Compute what `folder` does not hold yet, `jobs` cells at a time; one outcome per experiment, in order."""
    paths = {e: [folder / e.name / f"{cell_digest(cell)}.json" for cell in cells] for e, cells in plan.items()}
    outcomes = {e: ExperimentOutcome(e) for e in plan}
    missing: list[Task] = []
    for e, cells in plan.items():
        source = source_digest(e)
        for cell, path in zip(cells, paths[e], strict=True):
            if not path.exists() or json.loads(path.read_bytes())["source"] != source:
                missing.append(Task(e, cell, source, path))
        outcomes[e].stale = sum(task.experiment is e and task.path.exists() for task in missing)
        if outcomes[e].stale:
            on_stale(e, outcomes[e].stale)
    left = {e: sum(task.experiment is e for task in missing) for e in plan}
    for e, cells in plan.items():
        on_done(e, len(cells) - left[e], len(cells))
    for task, future in _computed(missing, jobs):
        e = task.experiment
        try:
            write_bytes(task.path, future.result())
            outcomes[e].computed += 1
        except Exception as error:
            failure = Failure(e.name, task.cell, f"{type(error).__name__}: {error}")
            outcomes[e].failures.append(failure)
            on_failure(failure)
        left[e] -= 1
        on_done(e, len(plan[e]) - left[e], len(plan[e]))
    for e, outcome in outcomes.items():
        if not outcome.failures:
            outcome.rows = [
                (cell, json.loads(path.read_bytes())["figures"]) for cell, path in zip(plan[e], paths[e], strict=True)
            ]
    return list(outcomes.values())


def cell_digest(cell: Cell) -> str:
    """Names the cell's result."""
    return hashlib.sha256(_canonical([dict(cell.parameters), cell.seed])).hexdigest()[:20]


def source_digest(experiment: Experiment) -> str:
    """Another one if any file that decides what the experiment computes is another."""
    content = hashlib.sha256()
    for path in source_files(type(experiment).__module__):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:20]


def source_files(module: str, more_packages: Sequence[str] = ()) -> list[Path]:
    """The files that decide what the experiments of a module compute: code, and data that code reads."""
    files: list[Path] = []
    for package in (*WHOLE_PACKAGES, *more_packages):
        spec = find_spec(package)
        for location in (spec and spec.submodule_search_locations) or []:
            files += sorted(p for p in Path(location).rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    pending, seen = [module], set()
    while pending:
        path = _file_of(name := pending.pop())
        if name in seen or path is None:
            continue
        seen.add(name)
        files.append(path)
        pending += filter(_followed, _imports(path))
    return files


def _file_of(name: str) -> Path | None:
    """Where the module is, None if the name is not a module's."""
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and spec.origin else None


def _imports(path: Path) -> Iterable[str]:
    """The names that may be of modules: `a.b` of `import a.b`; `a.b` and `a.b.c` of `from a.b import c`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _followed(name: str) -> bool:
    package, *inside = name.split(".")
    return package in FOLLOWED_PACKAGES and bool(inside) and inside[0] not in NOT_FOLLOWED


@dataclass(frozen=True)
class Task:
    """A cell to compute, from which source, and where its result goes."""

    experiment: Experiment
    cell: Cell
    source: str
    path: Path


def _computed(tasks: Sequence[Task], jobs: int) -> Iterable[tuple[Task, "Future[bytes]"]]:
    """Each task with its result, as they end."""
    if not tasks:
        return
    with ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(run_cell, task.experiment, task.cell, task.source): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_cell(experiment: Experiment, cell: Cell, source: str) -> bytes:
    """The content of the cell's file. Raises ValueError on figures that JSON cannot hold."""
    figures = dict(experiment.run(cell))
    return _canonical({"parameters": dict(cell.parameters), "seed": cell.seed, "source": source, "figures": figures})


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()
