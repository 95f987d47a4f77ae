"""Sessions served on three engines: stock vLLM, our scheduler, and our scheduler that keeps KV of paused sessions.

All are up at the same time, and those that do not work are frozen. Prompts differ from cell to cell, so that no cache
of an earlier one helps.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from justitia_benchmarks.engine import servers
from justitia_benchmarks.engine.calibrated import Calibrated, calibrate
from justitia_benchmarks.engine.measure import QUEUED, counted, direct, figures, serve_told
from justitia_benchmarks.engine.servers import (
    Prepared,
    RunningPool,
    engine_alone,
    engine_arguments,
    prepared,
    work_on,
)
from justitia_benchmarks.engine.store import FigureStore, prompt_seed, tracked
from justitia_benchmarks.engine.turns import (
    ARGUMENTS,
    SCHEDULERS,
    SPACE,
    TurnsCell,
    TurnsPlan,
    cells,
    draw,
    sized,
)
from justitia_cli.replay import replay
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
        return calibrate(running, SESSIONS, SPACE)

    def serve(self, cell: TurnsCell, engine: Calibrated) -> dict[str, object]:
        """Figures of the cell's sessions. `found`: the part of the prompts that was in the cache. `queued`: the mean
        seconds that a request waited in the engine. Raises RuntimeError if a request failed.
        """
        running, way = self._pools[cell.way.engine], cell.way.way
        work_on(running, self._pools.values())
        runs, prompts = draw(cell.sessions, cell.seed, engine.profile), prompt_seed(cell)
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
    with prepared() as parts:
        if of_runs is None:
            of_runs = _calibrate_runs(parts)
            store.write_once(RUNS, of_runs.kept())
        with turns_bench(parts) as bench:
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
def turns_bench(parts: Prepared) -> Iterator[TurnsBench]:
    """All engines, ready, without sidecars."""
    with ExitStack() as stack:
        pools = {
            name: stack.enter_context(engine_alone(parts, name, ARGUMENTS, scheduler))
            for name, scheduler in SCHEDULERS.items()
        }
        yield TurnsBench(pools)


def _calibrate_runs(parts: Prepared) -> Calibrated:
    """The engine of agent runs streams sixteen tokens at a time, which steps cannot be measured by: here it streams
    each.
    """
    with engine_alone(parts, RUNS, engine_arguments(servers.SPACE)) as running:
        return calibrate(running, RUNS, servers.SPACE)
