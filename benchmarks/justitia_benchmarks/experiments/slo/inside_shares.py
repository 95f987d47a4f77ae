"""Objectives inside the shares: pools of agents, chat and reasoning under the default policy.

Four tenants ask for the same. Each has agent runs (half of the tenant's demand), chat and reasoning (single requests; a
tenth of them reason). Weights are equal, or 1 to 4; in all the engine is offered 1.2 times what it can serve, for
900 s. Chat and reasoning declare an objective: 90 % of first tokens within 4 s. Engine and step times: those of the
experiments with tiered Justitia (`tiered/serving.py`).

Contenders, all under the same gates: *without* (single requests are runs like others), *controller* (boosted, gamma
moved by the objectives), and fixed gammas, of which the largest is the order of arrival and the smallest shortest
first. A window of a tenant (60 s of arrivals) could be held if it was under some fixed gamma, not always the same one.
*VTC* is fair sharing on two levels.
"""

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.justitia.serving import as_served
from justitia_benchmarks.experiments.tiered.serving import PROFILE, agents, contender
from justitia_benchmarks.reports.slo import CONTROLLER
from justitia_benchmarks.reports.slo_inside_shares import VTC, WITHOUT, inside_shares
from justitia_benchmarks.statistics import quantile
from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.objectives.objective import Objective
from justitia_scheduling.objectives.observations import ObjectiveId
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.arrivals import full_engine_seconds, poisson_arrivals
from justitia_simulator.engine import Engine
from justitia_simulator.mixes import CONVERSATION, LIGHT_REASONING
from justitia_simulator.prediction import MEAN
from justitia_simulator.records import PolicyResults, RequestResult
from justitia_simulator.shares import share_errors
from justitia_simulator.slo import Declared, SloControl
from justitia_simulator.workload import WorkloadRun, WorkloadStage
from justitia_vocabulary.objectives import MetricName
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId

WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "equal": dict.fromkeys(("t1", "t2", "t3", "t4"), 1.0),
    "1 to 4": {"t1": 1.0, "t2": 2.0, "t3": 3.0, "t4": 4.0},
}
SECONDS: Seconds = 900.0
LOAD = 1.2
AGENTS_RUNS, AGENTS_LOAD = 300, 2.5
REASON = 0.1
CHAT, REASONING = "chat", "reasoning"
BOUND: Seconds = 4.0
PERCENTILE = 0.9
WINDOW: Seconds = 60.0
SHARES_WINDOW: Seconds = 300.0
FIXED = (0.001, 0.01, 0.1, 1.0, 100.0)
SEEDS, QUICK_SEEDS = 10, 2


class InsideShares:
    """Each cell serves one pool with one seed under every contender."""

    name = "slo-inside-shares"
    title = "Objectives inside the shares: agents, chat and reasoning of four tenants"
    paper = "ours"

    def cells(self, quick: bool) -> Sequence[Cell]:
        return [Cell({"weights": w}, seed) for seed in range(QUICK_SEEDS if quick else SEEDS) for w in WEIGHTS]

    def run(self, cell: Cell) -> Figures:
        weights = WEIGHTS[str(cell.parameters["weights"])]
        runs = workload(cell.seed, list(weights))
        return {
            name: _figures(served(name, runs, weights), weights)
            for name in (VTC, WITHOUT, CONTROLLER, *(f"{gamma:g}" for gamma in FIXED))
        }

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return inside_shares(rows, folder)


def workload(seed: int, tenants: Sequence[str]) -> list[WorkloadRun]:
    """In order of arrival."""
    wanted, work = LOAD * SECONDS / 2, 0.0
    runs: list[WorkloadRun] = []
    for run in agents(AGENTS_RUNS, seed, AGENTS_LOAD, dict.fromkeys(tenants, 1.0)):
        asks = full_engine_seconds(run.requests, PROFILE)
        if work + asks <= wanted:
            work += asks
            runs.append(run)
    stretch = SECONDS / max(run.arrival for run in runs)
    placed = [_at(run, run.arrival * stretch) for run in runs]
    return sorted(
        placed + [s for t in tenants for s in _singles(seed, t, wanted / len(tenants))], key=lambda r: r.arrival
    )


def _at(run: WorkloadRun, moment: Seconds) -> WorkloadRun:
    return WorkloadRun(run.id, run.tenant, run.application, round(moment, 3), run.stages)


def _singles(seed: int, tenant: str, wanted: Seconds) -> list[WorkloadRun]:
    """The tenant's chat and reasoning, which a full engine needs so many seconds for."""
    rng = random.Random(f"{seed}/{tenant}/singles")
    drawn: list[WorkloadRun] = []
    work = 0.0
    while work < wanted:
        reasons = rng.random() < REASON
        kind, application = (LIGHT_REASONING, REASONING) if reasons else (CONVERSATION, CHAT)
        name = RunId(f"{tenant}-{application}-{len(drawn)}")
        stage = WorkloadStage((kind.draw(rng),))
        run = as_served(WorkloadRun(name, TenantId(tenant), ApplicationId(f"{tenant}/{application}"), 0.0, (stage,)))
        work += full_engine_seconds(run.requests, PROFILE)
        drawn.append(run)
    moments = poisson_arrivals(len(drawn) / SECONDS, len(drawn), rng)
    return [_at(run, moment) for run, moment in zip(drawn, moments, strict=True)]


def served(name: str, runs: Sequence[WorkloadRun], weights: Mapping[str, float]) -> PolicyResults:
    tiered = TieredJustitia(EngineTime(PROFILE.charge))
    boosted = {run.application for run in runs if "/" in run.application} if name not in (VTC, WITHOUT) else set()
    control = None
    if name == CONTROLLER:
        objective = Objective(MetricName.TIME_TO_FIRST_TOKEN, PERCENTILE, BOUND, 600.0)
        control = SloControl([tiered], {ObjectiveId(a): Declared(objective, a) for a in sorted(boosted)})
    elif boosted:
        tiered.tune({Knob.GAMMA_FLOOR: float(name), Knob.GAMMA_CEILING: float(name)})
    engine = Engine(
        contender(VTC) if name == VTC else tiered,
        PROFILE,
        label=name,
        prediction=MEAN,
        sample_every=5.0,
        watcher=control,
        boosted=dict.fromkeys(boosted, BOUND),
    )
    return engine.serve(runs, weights)


def _figures(results: PolicyResults, weights: Mapping[str, float]) -> dict[str, object]:
    singles = [r for r in results.requests if "/" in r.application]
    errors = share_errors(results, SHARES_WINDOW).tolist()
    return {
        "held": {tenant: _held([r for r in singles if r.tenant == tenant]) for tenant in weights},
        "p99": quantile([_waited(r) for r in singles], 0.99),
        "completion_p99": quantile([r.finished - r.ready for r in singles if r.finished is not None], 0.99),
        "agents": fmean(run.jct for run in results.runs if "/" not in run.application and run.jct is not None),
        "error": quantile(errors, 0.95) if errors else 0.0,
    }


def _waited(request: RequestResult) -> Seconds:
    return math.inf if request.first_token is None else request.first_token - request.ready


def _held(requests: Sequence[RequestResult]) -> list[bool]:
    """Whether each window of arrivals is within the objective."""
    by_window: dict[int, list[bool]] = {i: [] for i in range(int(SECONDS / WINDOW))}
    for request in requests:
        if request.ready < SECONDS:
            by_window[int(request.ready / WINDOW)].append(_waited(request) <= BOUND)
    return [fmean(within) >= PERCENTILE if within else True for within in by_window.values()]
