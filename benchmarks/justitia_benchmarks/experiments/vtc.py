"""The evaluation of VTC (Sheng et al. 2024, section 5 and appendix B) in the simulator's A10G.

- `vtc-service`: the service differences of tables 2, 5 and 6, and the curves of figures 3 to 14, 16 and 19.
- `vtc-profiled`: tables 3 and 4, where the policies charge, and the figures measure, the profiled cost.
- `vtc-space`: figure 15, the gap between two backlogged clients by KV space and by length of the requests.

A cell is one policy on one workload with one seed. The real trace and evenly spaced arrivals are not random: there the
seed shifts the phase of every client's arrivals, and seed 0 leaves the real trace as it was recorded. Clients are
numbered from 0, as in the authors' files; the paper's figures number them from 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from justitia_benchmarks.experiment import Cell, Claim, Experiment, Figures, Row
from justitia_benchmarks.experiments.vtc_policies import accepted, contender
from justitia_benchmarks.reports import vtc as reports
from justitia_scheduling.core.cost import CostModel, ProfiledCost, WeightedTokens
from justitia_simulator.engine import Engine
from justitia_simulator.fairness import (
    Served,
    profiled_cost,
    response_times,
    service_difference,
    service_rates,
    weighted_tokens,
    widest_gap,
)
from justitia_simulator.mixes import VTC_NAMES, Client, client_requests, vtc_workload
from justitia_simulator.profiles import find_profile
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import Seconds, TenantId, Tokens

ENGINE = "a10g-llama2-7b"
SEEDS = range(10)
QUICK_SEEDS = range(1)
HORIZON = 600.0
BY_NUMBER = {TenantId(str(number)): number + 1.0 for number in range(4)}
CUT = {"poisson-short-long": 300.0, "poisson-short-long-2": 150.0}
"""Overloads that are cut short, in seconds: what queues up by the end has to be served too."""

REFUSING = ("rpm-5", "rpm-15", "rpm-20", "rpm-30")
REAL = ("fcfs", "lcf", "drr", "vtc", "vtc-predicted", "vtc-oracle", *REFUSING, "rpm-20-held")
BACKLOGGED = ("fcfs", "lcf", "drr", "vtc", "vtc-50", "vtc-oracle")
SHAPES = ("fcfs", "lcf", "vtc")


@dataclass(frozen=True)
class Service:
    """Who is served how much, and when: tables and curves."""

    name: str = "vtc-service"
    title: str = "VTC: service of each client over time"
    paper: str = "vtc"

    def cells(self, quick: bool) -> Sequence[Cell]:
        policies: dict[str, tuple[str, ...]] = {"real": REAL, "overload": BACKLOGGED, "overload-multi": BACKLOGGED}
        policies |= {"overload-weighted": ("fcfs", "vtc", "vtc-weighted", "drr-weighted")}
        policies |= {name: SHAPES for name in VTC_NAMES if name not in policies}
        return served_under(policies, quick)

    def run(self, cell: Cell) -> Figures:
        workload, policy = str(cell.parameters["workload"]), str(cell.parameters["policy"])
        weights = BY_NUMBER if policy.endswith("-weighted") else {}
        runs = accepted(requests_of(workload, cell.seed), policy)
        served = serve(runs, policy, cell.seed, weights=weights)
        return tables(served, weights) | curves(served, moments(runs), weights)

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.service(rows, folder)


@dataclass(frozen=True)
class Profiled:
    """The same with a cost that is not linear in the tokens."""

    name: str = "vtc-profiled"
    title: str = "VTC: service by the profiled cost"
    paper: str = "vtc"

    def cells(self, quick: bool) -> Sequence[Cell]:
        policies = {
            "real": ("fcfs", "lcf", "vtc", "vtc-predicted", "vtc-oracle"),
            "overload": ("fcfs", "vtc", "vtc-oracle"),
        }
        return served_under(policies, quick)

    def run(self, cell: Cell) -> Figures:
        workload, policy = str(cell.parameters["workload"]), str(cell.parameters["policy"])
        served = serve(requests_of(workload, cell.seed), policy, cell.seed, cost_model=ProfiledCost())
        found = service_difference(served, HORIZON, cost=profiled_cost)
        printed = service_difference(served, HORIZON, cost=profiled_cost, demand_cost=weighted_tokens)
        return tables(served, {}) | {
            "average": found.average,
            "maximum": found.maximum,
            "variance": found.variance,
            "average_as_printed": printed.average,
            "maximum_as_printed": printed.maximum,
            "variance_as_printed": printed.variance,
        }

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.profiled(rows, folder)


@dataclass(frozen=True)
class Space:
    """Two backlogged clients, one asking twice as often, in more or less KV space and with longer requests."""

    name: str = "vtc-space"
    title: str = "VTC: the gap by KV space and length"
    paper: str = "vtc"

    def cells(self, quick: bool) -> Sequence[Cell]:
        settings = [(10_000, 256), (35_000, 256), (65_000, 256), (35_000, 512), (35_000, 768)]
        return [
            Cell({"kv_tokens": kv_tokens, "length": length}, seed)
            for seed in (QUICK_SEEDS if quick else SEEDS)
            for kv_tokens, length in (settings[:2] if quick else settings)
        ]

    def run(self, cell: Cell) -> Figures:
        length = int(cell.parameters["length"])
        end = HORIZON / 2
        rate = 3.0 * 256 / length
        clients = [[Client(r, length, length, duration=end)] for r in (rate, 2 * rate)]
        runs = client_requests(clients, seed=cell.seed)
        served = serve(runs, "vtc", cell.seed, kv_tokens=int(cell.parameters["kv_tokens"]))
        return {"gap": rounded(widest_gap(served, ticks(end)))}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.space(rows, folder)


EXPERIMENTS: Sequence[Experiment] = (Service(), Profiled(), Space())


def served_under(policies: Mapping[str, Sequence[str]], quick: bool) -> list[Cell]:
    """A cell for each seed, workload and policy that serves it."""
    return [
        Cell({"workload": workload, "policy": policy}, seed)
        for seed in (QUICK_SEEDS if quick else SEEDS)
        for workload, names in policies.items()
        for policy in names
    ]


def requests_of(workload: str, seed: int) -> list[WorkloadRun]:
    end = CUT.get(workload, math.inf)
    return [run for run in vtc_workload(workload, seed=seed) if run.arrival < end]


def serve(
    runs: Sequence[WorkloadRun],
    policy: str,
    seed: int,
    *,
    cost_model: CostModel | None = None,
    weights: Mapping[TenantId, float] | None = None,
    kv_tokens: Tokens | None = None,
) -> list[Served]:
    chosen = contender(policy, cost_model or WeightedTokens(), seed)
    by_name = {str(tenant): weight for tenant, weight in (weights or {}).items()}
    engine = Engine(
        chosen.policy, find_profile(ENGINE), label=policy, kv_tokens=kv_tokens, prediction=chosen.prediction
    )
    return [
        Served(TenantId(r.tenant), r.ready, r.first_token or 0.0, r.finished or 0.0, r.prompt_tokens, r.output_tokens)
        for r in engine.serve(runs, by_name).requests
    ]


def tables(served: Sequence[Served], weights: Mapping[TenantId, float]) -> dict[str, object]:
    difference = service_difference(served, HORIZON, weights)
    tokens = sum(r.prompt_tokens + r.output_tokens for r in served)
    return {
        "maximum": difference.maximum,
        "average": difference.average,
        "variance": difference.variance,
        "throughput": tokens / max(r.finished for r in served),
        "delivered": sum((r.prompt_tokens + r.output_tokens) * r.part_within(0.0, HORIZON) for r in served) / HORIZON,
    }


def curves(served: Sequence[Served], at: Sequence[Seconds], weights: Mapping[TenantId, float]) -> dict[str, object]:
    clients = sorted({r.client for r in served}, key=int)
    return {
        "moments": list(at),
        "gap": rounded(widest_gap(served, at, weights)),
        "service": {c: rounded(service_rates(served, c, at)) for c in clients},
        "waits": {c: rounded(response_times(served, c, at)) for c in clients},
        "mean_wait": {c: fmean(r.first_token - r.arrival for r in served if r.client == c) for c in clients},
        "requests": {c: sum(r.client == c for r in served) for c in clients},
    }


def moments(runs: Sequence[WorkloadRun]) -> list[Seconds]:
    """Every fifteen seconds while requests come."""
    return ticks(max(run.arrival for run in runs))


def ticks(end: Seconds) -> list[Seconds]:
    return [15.0 * i for i in range(1, round(end / 15) + 1)]


def rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if v is None else round(v, 2) for v in values]
