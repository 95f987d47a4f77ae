"""UniBoost's tail against TRAIL+'s on a real vLLM with our scheduler inside, and what the simulator says of the same.

Results of cells (`tail_plan.py`) are kept; the same command goes on from what is there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from justitia_benchmarks.engine.measure import direct, refuse_failed, replay_told
from justitia_benchmarks.engine.servers import (
    RunningPool,
    engine_alone,
    engine_arguments,
    prepared,
    telling,
    until,
)
from justitia_benchmarks.engine.store import FigureStore, prompt_seed, tracked
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
    SEATS,
    SPACE,
    at_load,
    at_once,
    capacity_of,
    requests,
)
from justitia_benchmarks.engine.workload import WEIGHTS
from justitia_benchmarks.experiments.boost_serving import figures
from justitia_scheduling.core.cost import StepTime
from justitia_simulator.prediction import TRUE
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.records import PolicyResults
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.policies import Knob

ARGUMENTS = (*engine_arguments(SPACE, SEATS), "--stream-interval=16", "--no-enable-prefix-caching")
UNMEASURED = 0
"""Seed of the requests that show the engine's speed."""
WARMING, SHOWING = 60, 300
"""Requests that an engine serves first, because its first steps are slow; and those that show its speed."""


class EngineSpeed(msgspec.Struct, frozen=True):
    """`capacity` in tokens a second, by mix."""

    capacity: dict[str, float]
    step: StepTime


class TailBench:
    """A running engine, told of each request what it costs."""

    def __init__(self, running: RunningPool) -> None:
        self._running = running

    def speed(self, cell: Speed) -> EngineSpeed:
        asyncio.run(self._serve(BY_ARRIVAL, None, at_once(requests(cell.mixes[0], WARMING, UNMEASURED)), cell=0))
        capacity = {}
        for number, mix in enumerate(cell.mixes, 1):
            runs = at_once(requests(mix, SHOWING, UNMEASURED))
            results, _, step = asyncio.run(self._serve(BY_ARRIVAL, None, runs, number))
            capacity[mix] = capacity_of(results.requests)
        return EngineSpeed(capacity, step)

    def capacity(self, cell: Capacity) -> dict[str, object]:
        runs = at_once(requests(cell.mix, cell.requests, cell.seed))
        results, _, _ = asyncio.run(self._serve(BY_ARRIVAL, None, runs, prompt_seed(cell)))
        return {"tokens_per_second": capacity_of(results.requests)}

    def serve(self, cell: Served, capacity: float, gamma: float | None) -> dict[str, object]:
        drawn = cell.capacity
        runs = at_load(requests(drawn.mix, drawn.requests, drawn.seed), cell.load.rho, capacity)
        results, preemptions, _ = asyncio.run(self._serve(cell.way.policy, gamma, runs, prompt_seed(cell)))
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
    speed = _read_speed(plan, store)
    if speed is not None and not _missing(plan, speed, store):
        return
    with prepared() as parts, engine_alone(parts, "tail", ARGUMENTS) as running:
        bench = TailBench(running)
        if speed is None:
            speed = bench.speed(Speed(plan.mixes))
            store.write(Speed(plan.mixes), msgspec.to_builtins(speed))
        profile = profile_of(speed.step)
        for cell in tracked(_missing(plan, speed, store)):
            store.write(cell, _measured(cell, bench, profile, store))


def read_tail(plan: TailPlan, store: FigureStore) -> dict[TailCell, Mapping[str, Any]]:
    """What is known of each cell."""
    speed = _read_speed(plan, store)
    cells = () if speed is None else tail_cells(plan, speed.capacity)
    return {cell: figures for cell in cells if (figures := store.read(cell)) is not None}


def _read_speed(plan: TailPlan, store: FigureStore) -> EngineSpeed | None:
    kept = store.read(Speed(plan.mixes))
    return None if kept is None else msgspec.convert(kept, EngineSpeed)


def _missing(plan: TailPlan, speed: EngineSpeed, store: FigureStore) -> list[TailCell]:
    return [cell for cell in tail_cells(plan, speed.capacity) if store.read(cell) is None]


def _measured(cell: TailCell, bench: TailBench, profile: EngineProfile, store: FigureStore) -> dict[str, object]:
    """What the cell is, given what earlier cells have found."""

    def found(earlier: TailCell, figure: str) -> float:
        return msgspec.convert((store.read(earlier) or {})[figure], float)

    def gamma(load: TailLoad, of: Capacity) -> float:
        return found(Tuning(load, of.requests), "gamma")

    match cell:
        case Tuning():
            return {"gamma": tuned_gamma(cell, profile)}
        case Capacity():
            return bench.capacity(cell)
        case Simulated(load=load, capacity=of):
            return simulated(cell, profile, gamma(load, of))
        case Served(load=load, capacity=of, way=way):
            return bench.serve(cell, found(of, "tokens_per_second"), gamma(load, of) if way.tuned else None)
