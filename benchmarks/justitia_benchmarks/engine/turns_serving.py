"""Sessions served on three engines: stock vLLM, our scheduler, and our scheduler that keeps KV of paused sessions.

All are up at the same time, and those that do not work are frozen. Prompts differ from cell to cell, so that no cache
of an earlier one helps.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from justitia_benchmarks.engine import servers, workload
from justitia_benchmarks.engine.calibrated import Calibrated, Space, calibrate
from justitia_benchmarks.engine.measure import QUEUED, counted, direct, figures, serve_told
from justitia_benchmarks.engine.servers import (
    WITH_BASELINES,
    WITH_BENCHMARKS,
    RunningPool,
    documents,
    on_one_core,
    running_pool,
    work_on,
)
from justitia_benchmarks.engine.store import FigureStore, tracked
from justitia_benchmarks.engine.turns import (
    ARGUMENTS,
    BLOCK,
    BLOCKS,
    LONGEST,
    SCHEDULERS,
    TurnsCell,
    TurnsPlan,
    cells,
    draw,
    sized,
)
from justitia_cli.console import errors
from justitia_cli.local.launch import LocalModel
from justitia_cli.replay import replay
from justitia_cli.runtime import EngineRuntime, ensure_engine
from justitia_cli.tiny_model import make_tiny_model
from justitia_simulator.turns import ideal_seconds

SESSIONS, RUNS = "profile-turns", "profile-runs"
"""Profiles of the engines that serve sessions, and of that on which :mod:`.measure` serves agent runs."""
_CACHE = ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")


class TurnsBench:
    """`pools` by the names of :data:`SCHEDULERS`."""

    def __init__(self, pools: Mapping[str, RunningPool]) -> None:
        self._pools = pools

    def calibrate(self) -> Calibrated:
        running = self._pools["engine"]
        work_on(running, self._pools.values())
        return calibrate(running, SESSIONS, Space(BLOCKS, BLOCK, LONGEST))

    def serve(self, cell: TurnsCell, engine: Calibrated) -> dict[str, object]:
        """Figures of the cell's sessions. `found`: the part of the prompts that was in the cache. `queued`: the mean
        seconds that a request waited in the engine. Raises RuntimeError if a request failed.
        """
        running, way = self._pools[cell.way.engine], cell.way.way
        work_on(running, self._pools.values())
        runs, prompts = draw(cell.sessions, cell.seed, engine.profile), int(cell.digest[:8], 16)
        names = (*_CACHE, *QUEUED)
        before = [counted(running, name) for name in names]
        more: Mapping[str, object] = {}
        if way.where == "stock":
            results = asyncio.run(replay(runs, direct(running, prompts)))
        else:
            compete = ideal_seconds(runs, engine.profile)
            results, more = asyncio.run(serve_told(running, way, runs, prompts, cell.seed, compete=compete))
        grown = [counted(running, name) - was for name, was in zip(names, before, strict=True)]
        hits, queries, seconds, requests = grown
        return {**figures(results, runs), **more, "found": hits / queries, "queued": seconds / requests}


@dataclass(frozen=True)
class TurnsMeasured:
    """`engine` is the profile by which the sessions were drawn, `of_runs` that of the engine that serves agent runs."""

    rows: Sequence[tuple[TurnsCell, Mapping[str, object]]]
    engine: Calibrated
    of_runs: Calibrated


def measure_turns(plan: TurnsPlan, store: FigureStore) -> TurnsMeasured:
    """All of the plan. What has a result already is not measured again."""
    of_runs, engine = _profile(store, RUNS), _profile(store, SESSIONS)
    if of_runs is None or engine is None or _missing(plan, engine, store):
        of_runs, engine = _measure(plan, store, of_runs, engine)
    rows = [(cell, f) for cell in cells(sized(plan, engine.profile)) if (f := store.read(cell)) is not None]
    return TurnsMeasured(rows, engine, of_runs)


def _measure(
    plan: TurnsPlan, store: FigureStore, of_runs: Calibrated | None, engine: Calibrated | None
) -> tuple[Calibrated, Calibrated]:
    """Whatever has no result yet. Returns the profiles."""
    runtime = on_one_core(ensure_engine(errors.print, "cpu"))
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        model = LocalModel(str(make_tiny_model(directory / "model")), True)
        if of_runs is None:
            of_runs = _calibrate_runs(directory, runtime, model)
            store.write_once(RUNS, of_runs.kept())
        with turns_bench(directory, runtime, model) as bench:
            if engine is None:
                engine = bench.calibrate()
                store.write_once(SESSIONS, engine.kept())
            for cell in tracked(_missing(plan, engine, store)):
                store.write(cell, bench.serve(cell, engine))
    return of_runs, engine


def _profile(store: FigureStore, name: str) -> Calibrated | None:
    kept = store.read_once(name)
    return None if kept is None else Calibrated.read(kept)


def _missing(plan: TurnsPlan, engine: Calibrated, store: FigureStore) -> list[TurnsCell]:
    return [cell for cell in cells(sized(plan, engine.profile)) if store.read(cell) is None]


@contextmanager
def turns_bench(directory: Path, runtime: EngineRuntime, model: LocalModel) -> Iterator[TurnsBench]:
    """All engines, ready, without sidecars."""
    with ExitStack() as stack:
        pools = {
            name: stack.enter_context(_without_sidecar(directory / name, runtime, model, ARGUMENTS, scheduler))
            for name, scheduler in SCHEDULERS.items()
        }
        yield TurnsBench(pools)


def _calibrate_runs(directory: Path, runtime: EngineRuntime, model: LocalModel) -> Calibrated:
    """The engine of agent runs streams sixteen tokens at a time, which steps cannot be measured by: here it streams
    each.
    """
    arguments = (*servers.ARGUMENTS, "--stream-interval=1")
    with _without_sidecar(directory / RUNS, runtime, model, arguments, WITH_BASELINES) as running:
        return calibrate(running, RUNS, Space(workload.BLOCKS, workload.BLOCK, workload.LONGEST))


@contextmanager
def _without_sidecar(
    directory: Path, runtime: EngineRuntime, model: LocalModel, arguments: Sequence[str], scheduler: str | None
) -> Iterator[RunningPool]:
    with running_pool(
        documents("Engine" if scheduler else "Sidecar", "TieredJustitia", {}),
        directory,
        runtime,
        model,
        errors.print,
        arguments=(*arguments, *([scheduler] if scheduler else [])),
        path=WITH_BENCHMARKS if scheduler else (),
    ) as running:
        running.pool.stop_sidecar()
        yield running
