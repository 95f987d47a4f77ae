"""What the simulator says of a workload that a real engine served, and how near it comes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Self

import msgspec

from justitia_benchmarks.engine import turns, workload
from justitia_benchmarks.engine.calibrated import Calibrated
from justitia_benchmarks.engine.measure import FCFS, MEAN, RUN_VTC, TRUE, Way, tokens_per_second
from justitia_benchmarks.engine.plan import EngineCell
from justitia_benchmarks.engine.turns_serving import TurnsMeasured
from justitia_benchmarks.engine.workload import WEIGHTS
from justitia_benchmarks.statistics import Estimate, paired_ratio
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.policies.registry import build_cost_model
from justitia_simulator.engine import Engine
from justitia_simulator.prediction import find_prediction
from justitia_simulator.summary import summarise
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import Seconds, TenantId

THROUGHPUT_WITHIN, MEAN_WITHIN = 0.06, 0.15
"""How far the simulator may be from the engine."""
RUNS_LOAD, RUNS_WAYS = 2.5, (FCFS, RUN_VTC, TRUE, MEAN)


@dataclass(frozen=True)
class Outcome:
    """Mean completion time, tokens a second until the last run is over, and the part of the prompts that was found."""

    mean: Seconds
    throughput: float
    found: float | None = None

    @classmethod
    def measured(cls, figures: Mapping[str, Any]) -> Self:
        return cls(fmean(figures["jct"]), tokens_per_second(figures), figures.get("found"))


@dataclass(frozen=True)
class Pair:
    """What came of the same runs in the same way, on the engine and in the simulator."""

    measured: Outcome
    simulated: Outcome


BySeed = Mapping[int, Pair]
Compared = Mapping[str, BySeed]
"""By way."""


def simulate(way: Way, runs: Sequence[WorkloadRun], engine: Calibrated, seed: int, *, keep: bool = False) -> Outcome:
    """Serve the runs in that way. `seed` is that of predictions. The engine's latency is time between requests, in
    which it is not waited for.
    """
    profile = msgspec.structs.replace(engine.profile, keep_paused=keep)
    policy = build_policy(way.policy, build_cost_model(way.cost_model, profile.charge))
    prediction = find_prediction(way.prediction, seed)
    weights = {} if way.each_run_a_client else WEIGHTS
    offered = [_offered(run, way, engine.latency) for run in runs]
    results = Engine(policy, profile, label=way.name, prediction=prediction).serve(offered, weights)
    cached = sum(r.cached_tokens for r in results.requests) / sum(r.prompt_tokens for r in results.requests)
    mean = fmean(run.jct for run in results.runs if run.jct is not None)
    return Outcome(mean, tokens_per_second(summarise(results)), cached)


def _offered(run: WorkloadRun, way: Way, latency: Seconds) -> WorkloadRun:
    stages = tuple(replace(stage, delay=stage.delay + latency) for stage in run.stages)
    return replace(run, stages=stages, tenant=TenantId(run.id) if way.each_run_a_client else run.tenant)


def simulated_sessions(measured: TurnsMeasured) -> Compared:
    """By the ways of sessions. Stock vLLM's order is that of first come, first served."""
    found: dict[str, dict[int, Pair]] = {}
    for cell, figures in measured.rows:
        runs = turns.draw(cell.sessions, cell.seed, measured.engine.profile)
        simulated = simulate(cell.way.way, runs, measured.engine, cell.seed, keep=cell.way.keep)
        found.setdefault(cell.way.name, {})[cell.seed] = Pair(Outcome.measured(figures), simulated)
    return found


def simulated_runs(rows: Sequence[tuple[EngineCell, Mapping[str, Any]]], step: Seconds, engine: Calibrated) -> Compared:
    """By the ways of agent runs at `RUNS_LOAD`, with policies that the simulator has. They were drawn for
    full steps of `step`.
    """
    found: dict[str, dict[int, Pair]] = {}
    for cell, figures in rows:
        scenario = cell.scenario
        if scenario.load == RUNS_LOAD and cell.way in RUNS_WAYS:
            runs = workload.draw(scenario.runs, cell.seed, scenario.load, step)
            pair = Pair(Outcome.measured(figures), simulate(cell.way, runs, engine, cell.seed))
            found.setdefault(cell.way.name, {})[cell.seed] = pair
    return found


def ratio(pairs: BySeed, figure: str) -> Estimate:
    """Measured ÷ simulated."""
    measured, simulated = ([getattr(side, figure) for side in sides] for sides in _sides(pairs))
    return paired_ratio(measured, simulated)


def within(found: Estimate, tolerated: float) -> bool:
    return abs(found.mean - 1.0) <= tolerated


def rankings(compared: Compared) -> tuple[list[str], list[str]]:
    """The policies by mean completion time over the seeds, the shortest first: measured, and simulated."""
    means = {name: [fmean(side.mean for side in sides) for sides in _sides(pairs)] for name, pairs in compared.items()}
    measured, simulated = (sorted(means, key=lambda name: means[name][side]) for side in (0, 1))
    return measured, simulated


def _sides(pairs: BySeed) -> tuple[list[Outcome], list[Outcome]]:
    return [pair.measured for pair in pairs.values()], [pair.simulated for pair in pairs.values()]
