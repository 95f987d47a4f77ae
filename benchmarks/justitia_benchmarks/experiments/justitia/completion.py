"""Figures 7, 8 and 11: completion times against the baselines, who finishes later than under VTC, compute as cost.

Predictions are true, so that the order is compared and not the predictor. `not_later` counts ratios up to 1, as the
paper does; `not_late` those runs that are not later than under VTC (`comparison.py`).
Figure 11's variant, `justitia-c`, is served where the paper did: on the 7B model.

The larger models, whose engines are a rule's, serve fewer policies and seeds.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from justitia_benchmarks.comparison import later
from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.agent_runs import jcts
from justitia_benchmarks.experiments.justitia.serving import (
    LOADS,
    MODELS,
    REFERENCE,
    WINDOWS,
    WITHOUT_DM,
    load_of,
    serve,
    suite,
)
from justitia_benchmarks.reports.justitia import report_completion
from justitia_benchmarks.statistics import quantile
from justitia_simulator.prediction import TRUE
from justitia_simulator.records import PolicyResults
from justitia_simulator.summary import largest_decile
from justitia_simulator.workload import WorkloadRun

ABLATION = "justitia-c"
ON_LARGER = ("parrot", "vtc", "srjf", "justitia", "tiered-justitia")
POLICIES = ("fcfs", "sjf", *ON_LARGER, ABLATION)


class CompletionTime:
    """Each cell serves one workload under every policy, so that ratios to VTC are known run by run."""

    name = "justitia-completion"
    title = "Completion time of runs against the paper's baselines"
    paper = "justitia"

    def cells(self, quick: bool) -> Sequence[Cell]:
        count = 100 if quick else 300
        return [
            Cell({"model": model, "load": load, "runs": count}, seed)
            for model in MODELS
            for load in _loads(model, quick)
            for seed in range(2 if quick else 20 if model == REFERENCE and load != "1x" else 10)
        ]

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        model, count = str(p["model"]), int(p["runs"])
        workload = suite(cell.seed, str(p["load"]), count, model)
        policies = POLICIES if model == REFERENCE else ON_LARGER
        results = {policy: serve(policy, workload, TRUE, model) for policy in policies}
        vtc = jcts(results["vtc"])
        return {
            "u": load_of(workload, model),
            "classes": {name: _sizes(runs) for name, runs in _by_class(workload).items()},
            "policies": {policy: _figures(served, vtc) for policy, served in results.items()},
        }

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_completion(rows, folder)


def _loads(model: str, quick: bool) -> Sequence[str]:
    if quick:
        return ("2x", "3x", WITHOUT_DM) if model == REFERENCE else ("3x",)
    return LOADS if model == REFERENCE else tuple(WINDOWS)


def _figures(served: PolicyResults, vtc: Mapping[str, float]) -> Mapping[str, object]:
    own = jcts(served)
    ratios = sorted(own[run] / vtc[run] for run in own)
    worst = max(own, key=lambda run: own[run] / vtc[run])
    late = later(np.array(list(own.values())), np.array([vtc[run] for run in own]))
    by_class: dict[str, list[float]] = {}
    for run in served.runs:
        by_class.setdefault(run.application, []).append(own[run.run])
    return {
        "mean": _mean(list(own.values())),
        **{f"p{p}": quantile(list(own.values()), p / 100) for p in (90, 99)},
        "largest_decile": _mean([own[run.run] for run in largest_decile(served.runs)]),
        "not_later": sum(r <= 1 + 1e-9 for r in ratios) / len(ratios),
        "not_late": float(1 - late.mean()),
        "worst": ratios[-1],
        "worst_later_by": own[worst] - vtc[worst],
        "ratios": [round(quantile(ratios, q / 100), 4) for q in range(101)],
        "class_mean": {name: _mean(values) for name, values in by_class.items()},
    }


def _by_class(workload: Sequence[WorkloadRun]) -> dict[str, list[WorkloadRun]]:
    classes: dict[str, list[WorkloadRun]] = {}
    for run in workload:
        classes.setdefault(run.application, []).append(run)
    return classes


def _sizes(runs: Sequence[WorkloadRun]) -> Mapping[str, float]:
    """How many, and what they ask for altogether: tokens, and KV token-time."""
    requests = [request for run in runs for request in run.requests]
    return {
        "runs": len(runs),
        "prompt": sum(r.prompt_tokens for r in requests),
        "output": sum(r.output_tokens for r in requests),
        "cost": sum(run.cost for run in runs),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
