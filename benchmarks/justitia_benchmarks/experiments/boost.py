"""The evaluation of tail-aware scheduling (UniBoost; sections 4.1, 4.3, A.3 and A.4) on simulated A100s.

- `boost-table`: table 2, every policy relative to TRAIL+ (`srpt` with true lengths) at rho = .99.
- `boost-load`: figure 7, latency over load for the phases of the design, in little KV space.
- `boost-front`: the mean against the tail over gamma, which the paper does not show.
- `boost-sensitivity`: figure 9 and tables 6 to 8: bursty arrivals, gamma over time; bin size, hysteresis, chunk.
- `boost-starvation`: A.3, long requests among nine times as many short ones.

A cell is one setting with one seed; it serves the same requests under every policy. Lengths and arrivals are drawn.
The paper serves 10,000 requests with Llama-3-8B; here it is 600 (500 over load) with Llama-2-7B, whose KV takes four
times the space. `uniboost-paper` is UniBoost with the paper's hysteresis, `uniboost` with ours. Utilisation: see
`boost_serving.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from justitia_benchmarks.experiment import Cell, Claim, Experiment, Figures, Row
from justitia_benchmarks.experiments.boost_serving import (
    CHUNK,
    COST,
    LARGE,
    PAPER,
    PAPER_DELTA,
    SMALL,
    WatchedUniBoost,
    alone,
    at_load,
    engine_of,
    figures,
    mix,
    serve,
)
from justitia_benchmarks.reports import boost as reports
from justitia_simulator.summary import ttlt
from justitia_vocabulary.policies import HYSTERESIS

SEEDS = 10
HIGH = 0.99
START = "gamma=0.1"
"""The gamma that UniBoost starts with, kept."""


@dataclass(frozen=True)
class Table:
    name: str = "boost-table"
    title: str = "UniBoost: relative to TRAIL+ (table 2)"
    paper: str = "tail-aware"

    def cells(self, quick: bool) -> Sequence[Cell]:
        settings = [
            (LARGE, "heavy-70", False),
            (LARGE, "heavy-70", True),
            (LARGE, "heavy-20", False),
            (LARGE, "heavy-100", False),
            (SMALL, "light-70", False),
            (SMALL, "light-70", True),
        ]
        seeds, count, chosen = (1, 200, [settings[0], settings[4]]) if quick else (SEEDS, 600, settings)
        return [
            Cell({"engine": engine, "mix": name, "swap": swap, "requests": count}, seed)
            for seed in range(seeds)
            for engine, name, swap in chosen
        ]

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        profile = engine_of(str(p["engine"]), swap=bool(p["swap"]))
        runs = at_load(mix(str(p["mix"]), int(p["requests"]), cell.seed, profile), profile, HIGH)
        policies = ("srpt", "ltr", "sarathi", "distboost", PAPER, "uniboost")
        return {name: figures(serve(name, runs, profile)) for name in policies} | {"alone": alone(runs, profile)}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.table(rows, folder)


@dataclass(frozen=True)
class Load:
    name: str = "boost-load"
    title: str = "UniBoost: latency over load (figure 7)"
    paper: str = "tail-aware"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, count, loads = (1, 150, (0.8, 1.0)) if quick else (SEEDS, 500, (0.6, 0.8, 0.9, 1.0))
        return [
            Cell({"mix": "light-70", "rho": rho, "requests": count}, seed) for seed in range(seeds) for rho in loads
        ]

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        profile = engine_of(SMALL)
        runs = at_load(mix(str(p["mix"]), int(p["requests"]), cell.seed, profile), profile, float(p["rho"]))
        phases = {
            "distboost": "distboost",
            "unified": f"uniboost:{START},quantum=1,delta=0",
            "memguard": f"uniboost:{START},delta={PAPER_DELTA}",
            PAPER: PAPER,
            "uniboost": "uniboost",
        }
        policies = phases | {name: name for name in ("mlfq", "srpt", "sarathi")}
        return {label: figures(serve(name, runs, profile)) for label, name in policies.items()}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.load(rows, folder)


@dataclass(frozen=True)
class BoostFront:
    name: str = "boost-front"
    title: str = "UniBoost: the mean against the tail"
    paper: str = "tail-aware"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, count = (1, 200) if quick else (SEEDS, 600)
        return [
            Cell({"mix": name, "requests": count}, seed) for seed in range(seeds) for name in ("heavy-70", "light-70")
        ]

    def run(self, cell: Cell) -> Figures:
        profile = engine_of(SMALL)
        runs = mix(str(cell.parameters["mix"]), int(cell.parameters["requests"]), cell.seed, profile)
        runs = at_load(runs, profile, HIGH)
        gammas = (0.003, 0.01, 0.03, 0.1, 1.0, 10.0)
        policies = {f"{gamma:g}": f"uniboost:gamma={gamma}" for gamma in gammas}
        policies |= {name: name for name in ("srpt", "sarathi", "mlfq", "distboost", PAPER, "uniboost")}
        found = {label: figures(serve(name, runs, profile)) for label, name in policies.items()}
        return found | {"alone": alone(runs, profile)}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.front(rows, folder)


@dataclass(frozen=True)
class Sensitivity:
    name: str = "boost-sensitivity"
    title: str = "UniBoost: bursts, bin size, hysteresis, chunk (figure 9, tables 6 to 8)"
    paper: str = "tail-aware"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, count = (1, 200) if quick else (SEEDS, 600)
        return [
            Cell({"chunk": chunk, "requests": count}, seed)
            for seed in range(seeds)
            for chunk in ((CHUNK,) if quick else (128, 512, CHUNK, 2048))
        ]

    def run(self, cell: Cell) -> Figures:
        chunk, count = int(cell.parameters["chunk"]), int(cell.parameters["requests"])
        profile = engine_of(SMALL, chunk=chunk)
        runs = at_load(mix("light-70", count, cell.seed, profile), profile, HIGH, bursty_seed=cell.seed)
        watched = WatchedUniBoost(COST, delta=PAPER_DELTA)
        results = serve(watched, runs, profile)
        found: dict[str, object] = {PAPER: figures(results), "sarathi": figures(serve("sarathi", runs, profile))}
        if chunk == CHUNK:
            settings = [f"quantum={k},delta={PAPER_DELTA}" for k in (64, 512, 1024)]
            settings += [f"delta={delta:g}" for delta in (0, 0.3, 0.5, HYSTERESIS)]
            found |= {setting: figures(serve(f"uniboost:{setting}", runs, profile)) for setting in settings}
            end = max(r.finished or 0.0 for r in results.requests)
            edges = np.linspace(0.0, end, 41)
            moments, gammas = zip(*watched.timeline, strict=True)
            arrivals = np.histogram([run.arrival for run in runs], edges)[0] / (end / 40)
            found |= {
                "moments": [round(float(x) / end, 4) for x in edges[1:]],
                "gamma": [gammas[max(int(np.searchsorted(moments, x, "right")) - 1, 0)] for x in edges[1:]],
                "rate": [float(x) for x in arrivals],
            }
        return found

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.sensitivity(rows, folder)


@dataclass(frozen=True)
class BoostStarvation:
    """`slope`: seconds that a long request takes longer for each request that arrived before it, least squares."""

    name: str = "boost-starvation"
    title: str = "UniBoost: long requests among short ones (appendix A.3)"
    paper: str = "tail-aware"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, count = (1, 200) if quick else (SEEDS, 600)
        return [Cell({"requests": count}, seed) for seed in range(seeds)]

    def run(self, cell: Cell) -> Figures:
        profile = engine_of(SMALL)
        runs = at_load(mix("starvation", int(cell.parameters["requests"]), cell.seed, profile), profile, HIGH)
        found = {}
        for policy in (PAPER, "uniboost", "sarathi", "ltr", "srpt", "mlfq"):
            results = serve(policy, runs, profile)
            order = [i for i, r in enumerate(results.requests) if r.output_tokens == 6000]
            long = ttlt(results.requests[i] for i in order)
            short = ttlt(r for r in results.requests if r.output_tokens < 6000)
            found[policy] = {
                "slope": float(np.polyfit(order, long, 1)[0]),
                "long-mean": float(np.mean(long)),
                "short-mean": float(np.mean(short)),
                **{f"long-p{q}": float(np.percentile(long, q)) for q in (90, 95, 99)},
                **{f"short-p{q}": float(np.percentile(short, q)) for q in (50, 90, 95, 99)},
                "long-max": max(long),
            }
        return found

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.starvation(rows, folder)


EXPERIMENTS: Sequence[Experiment] = (Table(), Load(), BoostFront(), Sensitivity(), BoostStarvation())
