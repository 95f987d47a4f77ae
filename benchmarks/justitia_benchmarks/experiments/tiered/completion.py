"""Completion times of agent runs, of one tenant and of four of weights 1 to 4, and of requests as in traces.

- `one`, `half`: one tenant at an offered load of 2.5 and of 0.5;
- `equal`, `weighted`: four tenants at 2.5, asking for the same, or in proportion to their weights;
- `azure-conversation`, `azure-code`, `mooncake`: four tenants that ask for the same, single requests, fewer seeds.

A cell is one policy told one thing. It keeps every run's completion time, so that policies are compared in the report
and baselines are served once. Kappa and theta (one of each for all runs) are varied with one tenant, the gate's burst B
(engine seconds per unit of weight) with four, over fewer seeds.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from justitia_benchmarks.experiment import Cell, Claim, Figures, Parameter, Row
from justitia_benchmarks.experiments.agent_runs import jcts
from justitia_benchmarks.experiments.tiered.gaps import WidestBound, largest_part_of_bound
from justitia_benchmarks.experiments.tiered.serving import (
    DEFAULT,
    LIARS,
    PARTS,
    THOROUGH_LIARS,
    TRACES,
    agents,
    contender,
    liars_of,
    serve,
    told,
    trace_shaped,
)
from justitia_benchmarks.reports.tiered import TieredFigures, completion, usual_theta
from justitia_benchmarks.reports.tiered_fronts import fronts
from justitia_scheduling.policies.tiered import THETA, THETA_LEARNED
from justitia_simulator.workload import WorkloadRun

WEIGHTS = {"t1": 1.0, "t2": 2.0, "t3": 3.0, "t4": 4.0}
SCENARIOS: Mapping[str, tuple[float, Mapping[str, float], Mapping[str, float]]] = {
    "one": (2.5, {"t1": 1.0}, {}),
    "half": (0.5, {"t1": 1.0}, {}),
    "equal": (2.5, dict.fromkeys(WEIGHTS, 1.0), WEIGHTS),
    "weighted": (2.5, WEIGHTS, WEIGHTS),
}
"""Offered load; each tenant's part of the demand; the weights."""

TOLD = ("true", "noisy:3", "mean", "none", LIARS)
KAPPAS, THETAS = (1.0, 2.0, 3.0, 5.0, 10.0), (1.5, THETA, THETA_LEARNED)
REQUESTS_PER_RUN = 4
"""Requests of a trace where there would be one run of an agent."""
BURSTS = (0.0, 60.0, 400.0)
SEEDS, FRONT_SEEDS, QUICK_SEEDS = 20, 3, 2


class Completion:
    """All of what is measured in completion times."""

    name = "tiered-completion"
    title = "Tiered Justitia: completion times against fair sharing and SRJF"
    paper = "ours"

    def cells(self, quick: bool) -> Sequence[Cell]:
        count, front = (60, QUICK_SEEDS) if quick else (300, FRONT_SEEDS)
        plan = [(range(QUICK_SEEDS if quick else SEEDS), p) for p in _compared()]
        plan += [(range(front), p) for p in _varied(KAPPAS[:2] if quick else KAPPAS, THETAS[1:] if quick else THETAS)]
        return [Cell(p | {"runs": count}, seed) for seeds, p in plan for seed in seeds]

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        workload, weights = workload_of(str(p["scenario"]), int(p["runs"]), cell.seed)
        settings = {name: float(p[name]) for name in ("kappa", "theta", "burst") if name in p}
        policy = contender(str(p["policy"]), **settings)
        prediction = told(str(p["prediction"]), cell.seed)
        bound = WidestBound(policy) if weights and policy.report().slack is not None else None
        results = serve(policy, workload, prediction, weights, sample_every=1.0 if weights else 1e9, watcher=bound)
        lying = liars_of(workload)
        return {
            "jct": [round(jct, 4) for jct in jcts(results).values()],
            "cost": [run.cost for run in workload],
            "application": [run.application for run in workload],
            "lies": [run.id in lying for run in workload],
            "preemptions": sum(request.preemptions for request in results.requests),
            "gap": largest_part_of_bound(results, bound) if bound else 0.0,
        }

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        measured = TieredFigures.of_rows(rows)
        fronts(measured, folder)
        return completion(measured, folder)


def workload_of(scenario: str, count: int, seed: int) -> tuple[list[WorkloadRun], Mapping[str, float]]:
    """The runs, and the tenants' weights."""
    if scenario in TRACES:
        return trace_shaped(scenario, REQUESTS_PER_RUN * count, seed, dict.fromkeys(WEIGHTS, 1.0)), WEIGHTS
    load, demand, weights = SCENARIOS[scenario]
    return agents(count, seed, load, demand), weights


def _compared() -> Iterable[dict[str, Parameter]]:
    """What claims are about."""
    for scenario in SCENARIOS:
        for policy in ("vtc", "srjf") if scenario == "half" else ("vtc", "srjf", "justitia"):
            yield {"scenario": scenario, "policy": policy, "prediction": "true"}
        for prediction in ("true", LIARS, THOROUGH_LIARS) if scenario in {"equal", "weighted"} else TOLD[:4]:
            yield {"scenario": scenario, "policy": DEFAULT, "prediction": prediction}


def _varied(kappas: Sequence[float], thetas: Sequence[float]) -> Iterable[dict[str, Parameter]]:
    """Traces, and what the defaults and the parts buy."""
    for scenario in TRACES:
        for policy in ("vtc", "srjf", "justitia"):
            yield {"scenario": scenario, "policy": policy, "prediction": "true"}
        for prediction in ("true", "mean", "none"):
            yield {"scenario": scenario, "policy": DEFAULT, "prediction": prediction}
    for burst in BURSTS:
        yield {"scenario": "equal", "policy": DEFAULT, "prediction": "true", "burst": burst}
    for prediction in TOLD:
        for policy in (*PARTS, "justitia", DEFAULT):
            if (policy, prediction) not in {("justitia", "true"), *((DEFAULT, told) for told in TOLD[:4])}:
                yield {"scenario": "one", "policy": policy, "prediction": prediction}
        for kappa in kappas:
            for theta in thetas:
                if {kappa, theta} != {usual_theta(prediction)}:
                    own = {"kappa": kappa, "theta": theta}
                    yield {"scenario": "one", "policy": DEFAULT, "prediction": prediction} | own
