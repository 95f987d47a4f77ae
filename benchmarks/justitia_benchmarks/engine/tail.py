"""UniBoost's tail against TRAIL+'s on a real vLLM with our scheduler inside, and what the simulator says of the same.

Results of cells (`tail_plan.py`) are kept; the same command goes on from what is there.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from justitia_benchmarks.engine.measure import direct, refuse_failed, replay_told
from justitia_benchmarks.engine.servers import (
    WITH_BASELINES,
    WITH_BENCHMARKS,
    RunningPool,
    documents,
    on_one_core,
    running_pool,
    telling,
    until,
)
from justitia_benchmarks.engine.store import FigureStore, tracked
from justitia_benchmarks.engine.tail_plan import (
    Capacity,
    Served,
    Simulated,
    Speed,
    TailCell,
    TailLoad,
    TailPlan,
    Tuning,
    tail_cells,
)
from justitia_benchmarks.engine.tail_policies import BY_ARRIVAL
from justitia_benchmarks.engine.tail_simulation import profile_of, simulated, tuned_gamma
from justitia_benchmarks.engine.tail_workload import (
    BLOCKS,
    LONGEST,
    SEATS,
    TENANT,
    TOKEN_BUDGET,
    at_load,
    at_once,
    capacity_of,
    requests,
)
from justitia_benchmarks.engine.workload import BLOCK, WEIGHTS
from justitia_benchmarks.experiments.boost_serving import figures
from justitia_cli.console import errors
from justitia_cli.local.launch import LocalModel
from justitia_cli.runtime import ensure_engine
from justitia_cli.tiny_model import make_tiny_model
from justitia_scheduling.core.cost import StepTime
from justitia_simulator.prediction import TRUE
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.records import PolicyResults
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.policies import Knob

ARGUMENTS = (
    f"--max-model-len={LONGEST}",
    f"--block-size={BLOCK}",
    f"--num-gpu-blocks-override={BLOCKS + 1}",
    f"--max-num-seqs={SEATS}",
    f"--max-num-batched-tokens={TOKEN_BUDGET}",
    "--stream-interval=16",
    "--no-enable-prefix-caching",
    WITH_BASELINES,
)
"""vLLM keeps one block to itself."""
UNMEASURED = 0
"""Seed of the requests that show the engine's speed."""
WARMING, SHOWING = 60, 300
"""Requests that an engine serves first, because its first steps are slow; and those that show its speed."""


class TailBench:
    """A running engine, told of each request what it costs."""

    def __init__(self, running: RunningPool) -> None:
        self._running = running
        running.pool.stop_sidecar()

    def speed(self, cell: Speed) -> dict[str, Any]:
        asyncio.run(self._serve(BY_ARRIVAL, None, at_once(requests(cell.mixes[0], WARMING, UNMEASURED)), cell=0))
        capacity = {}
        for number, mix in enumerate(cell.mixes, 1):
            runs = at_once(requests(mix, SHOWING, UNMEASURED))
            results, _, step = asyncio.run(self._serve(BY_ARRIVAL, None, runs, number))
            capacity[mix] = capacity_of(results.requests)
        return {"capacity": capacity, "step": [step.per_step, step.per_token, step.per_kv_token]}

    def capacity(self, cell: Capacity) -> dict[str, object]:
        runs = at_once(requests(cell.mix, cell.requests, cell.seed))
        results, _, _ = asyncio.run(self._serve(BY_ARRIVAL, None, runs, _number(cell)))
        return {"tokens_per_second": capacity_of(results.requests)}

    def serve(self, cell: Served, capacity: float, gamma: float | None) -> dict[str, object]:
        drawn = cell.capacity
        runs = at_load(requests(drawn.mix, drawn.requests, drawn.seed), cell.load.rho, capacity)
        results, preemptions, _ = asyncio.run(self._serve(cell.way.policy, gamma, runs, _number(cell)))
        return {**figures(results), "preemptions": preemptions / len(runs)}

    async def _serve(
        self, policy: str, gamma: float | None, runs: Sequence[WorkloadRun], cell: int
    ) -> tuple[PolicyResults, int, StepTime]:
        """Results, how often requests were preempted, and the step time that the engine has seen."""
        knobs = {} if gamma is None else {Knob.GAMMA_FLOOR.value: gamma, Knob.GAMMA_CEILING.value: gamma}
        async with telling(self._running.socket) as teller:
            await teller.configure(policy, "engine-time", WEIGHTS, knobs)
            results = await replay_told(teller, runs, direct(self._running, cell), TRUE.tell(runs))
            refuse_failed(results)
            before = teller.channel.state
            await until(lambda: teller.channel.state is not before)
            step = teller.channel.state.step_time
        assert step is not None
        return results, teller.preemptions, step


def measure_tail(plan: TailPlan, store: FigureStore) -> None:
    """Whatever has no result yet. Raises RuntimeError if a request failed."""
    speed = store.read(Speed(plan.mixes))
    if speed is not None and not _missing(plan, speed, store):
        return
    with tail_bench(errors.print) as bench:
        if speed is None:
            speed = bench.speed(Speed(plan.mixes))
            store.write(Speed(plan.mixes), speed)
        _fill(_missing(plan, speed, store), bench, profile_of(StepTime(*speed["step"])), store)


def read_tail(plan: TailPlan, store: FigureStore) -> dict[TailCell, Mapping[str, Any]]:
    """What is known of each cell."""
    speed = store.read(Speed(plan.mixes))
    cells = () if speed is None else tail_cells(plan, speed["capacity"])
    return {cell: figures for cell in cells if (figures := store.read(cell)) is not None}


@contextmanager
def tail_bench(progress: Callable[[str], None]) -> Iterator[TailBench]:
    runtime = on_one_core(ensure_engine(progress, "cpu"))
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        model = LocalModel(str(make_tiny_model(directory / "model")), True)
        with running_pool(
            documents("Engine", "UniBoost", {"single": TENANT}),
            directory / "engine",
            runtime,
            model,
            progress,
            arguments=ARGUMENTS,
            path=WITH_BENCHMARKS,
        ) as running:
            yield TailBench(running)


def _missing(plan: TailPlan, speed: Mapping[str, Any], store: FigureStore) -> list[TailCell]:
    return [cell for cell in tail_cells(plan, speed["capacity"]) if store.read(cell) is None]


def _fill(missing: Sequence[TailCell], bench: TailBench, profile: EngineProfile, store: FigureStore) -> None:
    for cell in tracked(missing):
        store.write(cell, _measured(cell, bench, profile, store))


def _measured(cell: TailCell, bench: TailBench, profile: EngineProfile, store: FigureStore) -> dict[str, object]:
    """What the cell is, given what earlier cells have found."""

    def found(earlier: TailCell, figure: str) -> Any:
        return (store.read(earlier) or {})[figure]

    def gamma(load: TailLoad, of: Capacity) -> float:
        return float(found(Tuning(load, of.requests), "gamma"))

    match cell:
        case Tuning():
            return {"gamma": tuned_gamma(cell, profile)}
        case Capacity():
            return bench.capacity(cell)
        case Simulated(load=load, capacity=of):
            return simulated(cell, profile, gamma(load, of))
        case Served(load=load, capacity=of, way=way):
            return bench.serve(cell, found(of, "tokens_per_second"), gamma(load, of) if way.tuned else None)


def _number(cell: Capacity | Served) -> int:
    """Seeds the prompts, so that those of each cell are its own."""
    return int(cell.digest[:8], 16)
