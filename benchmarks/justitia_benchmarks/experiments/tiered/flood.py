"""Two tenants flood the engine and a third asks little: who gets how much, and how soon is the third served?

For 1,200 s the flooders, of weights 1 and 2, send short agent runs (EV, CC, KBQAV and SC in turn): ten at once and the
others by a Poisson process, work for 1.3 times the engine time that is their share. The light tenant, of weight 1,
sends one short chat request every 10 s by a Poisson process. True costs.

Errors of shares are those of `justitia_simulator.shares` in engine seconds, for windows of 60 s and of 300 s; under
`vtc` in its own unit. `burst` is B in engine seconds per unit of weight; without it B is the default, 400 s.
"""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.justitia.serving import as_served
from justitia_benchmarks.experiments.tiered.serving import DEFAULT, PROFILE, contender, serve, told
from justitia_benchmarks.reports import tiered_flood as reports
from justitia_benchmarks.statistics import quantile
from justitia_scheduling.policies.tiered import BETA, TieredJustitia
from justitia_simulator.agents import agent_run
from justitia_simulator.arrivals import full_engine_seconds
from justitia_simulator.records import PolicyResults
from justitia_simulator.shares import share_errors
from justitia_simulator.summary import ttft
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId

FLOODERS = {"flooder-1": 1.0, "flooder-2": 2.0}
LIGHT = "light"
WEIGHTS = FLOODERS | {LIGHT: 1.0}
CLASSES = ("EV", "CC", "KBQAV", "SC")
OVERLOAD = 1.3
AT_ONCE = 10
CHAT = WorkloadRequest(128, 64)
BETWEEN_CHATS: Seconds = 10.0
WINDOWS: Sequence[Seconds] = (60.0, 300.0)

BURSTS = (0.0, 5.0, 10.0, 20.0, 50.0, 100.0, 400.0)
BETAS = (1.0, BETA, math.inf)
SEEDS, FRONT_SEEDS, QUICK_SEEDS = 20, 3, 2
LENGTH, QUICK_LENGTH = 1200.0, 400.0


class Flood:
    """The default beside other policies, and what B and beta trade."""

    name = "tiered-flood"
    title = "Tiered Justitia: two tenants flood the engine, a third asks little"
    paper = "ours"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, front, seconds = (QUICK_SEEDS, QUICK_SEEDS, QUICK_LENGTH) if quick else (SEEDS, FRONT_SEEDS, LENGTH)
        compared = [
            Cell({"policy": policy, "seconds": seconds}, seed)
            for seed in range(seeds) for policy in ("vtc", "srjf", "justitia", DEFAULT)
        ]  # fmt: skip
        return compared + [
            Cell({"policy": DEFAULT, "seconds": seconds, "burst": burst, "beta": str(beta)}, seed)
            for seed in range(front)
            for burst in (BURSTS[0::3] if quick else BURSTS)
            for beta in BETAS
        ]

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        seconds = float(p["seconds"])
        settings = {name: float(p[name]) for name in ("burst", "beta") if name in p}
        policy = contender(str(p["policy"]), **settings)
        results = serve(policy, flood(cell.seed, seconds), told("true", cell.seed), WEIGHTS, sample_every=5.0)
        flooders = [run.jct for run in results.runs if run.tenant != LIGHT and run.jct is not None]
        waits = ttft(request for request in results.requests if request.tenant == LIGHT)
        return {
            "mean_jct": fmean(flooders),
            "light_ttft": fmean(waits),
            "light_ttft_p99": quantile(waits, 0.99),
            "backlogged": backlogged(results, seconds),
            "burst": policy.burst if isinstance(policy, TieredJustitia) else 0.0,
            "in_engine": policy.in_engine if isinstance(policy, TieredJustitia) else 0.0,
            **{f"error_{window:g}": _errors(results, window) for window in WINDOWS},
        }

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.flood(rows, folder)


def flood(seed: int, seconds: Seconds) -> list[WorkloadRun]:
    """In order of arrival."""
    runs = [run for tenant in FLOODERS for run in _flooder(tenant, seed, seconds)]
    rng = random.Random(f"{seed}/{LIGHT}")
    moment = rng.expovariate(1 / BETWEEN_CHATS)
    while moment < seconds:
        name = RunId(f"{LIGHT}-{len(runs)}")
        runs.append(
            WorkloadRun(name, TenantId(LIGHT), ApplicationId("chat"), round(moment, 3), (WorkloadStage((CHAT,)),))
        )
        moment += rng.expovariate(1 / BETWEEN_CHATS)
    return sorted(runs, key=lambda run: run.arrival)


def _flooder(tenant: str, seed: int, seconds: Seconds) -> list[WorkloadRun]:
    """Runs that the full engine needs 1.3 times the tenant's share of these seconds for."""
    rng = random.Random(f"{seed}/{tenant}")
    wanted = OVERLOAD * seconds * FLOODERS[tenant] / sum(FLOODERS.values())
    runs: list[WorkloadRun] = []
    work = 0.0
    while work < wanted:
        arrival = 0.0 if len(runs) < AT_ONCE else round(rng.uniform(0.0, seconds), 3)
        run = as_served(agent_run(CLASSES[len(runs) % len(CLASSES)], f"{tenant}-{len(runs)}", tenant, arrival, rng))
        work += full_engine_seconds(run.requests, PROFILE)
        runs.append(run)
    return runs


def backlogged(results: PolicyResults, seconds: Seconds) -> float:
    """The part of the samples in these seconds at which both flooders have requests waiting."""
    queued: dict[Seconds, list[int]] = {}
    for sample in results.service:
        if sample.tenant in FLOODERS and sample.time <= seconds:
            queued.setdefault(sample.time, []).append(sample.queued)
    return fmean(min(both) > 0 for both in queued.values())


def _errors(results: PolicyResults, window: Seconds) -> dict[str, float]:
    found = share_errors(results, window).tolist()
    return {"largest": max(found), "p95": quantile(found, 0.95)}
