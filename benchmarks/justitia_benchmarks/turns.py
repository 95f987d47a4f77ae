"""Policies on sessions of agents that take turns, in simulation, with the prefix cache and with KV kept in pauses.

`python -m justitia_benchmarks.turns` (or `make bench-turns`). Two tenants of weights 1 and 2 have as many sessions of
:mod:`justitia_simulator.turns` each; nothing is predicted, so that policies that need costs learn them, unless the row
says what it knows of sessions (:mod:`.turns_told`). Three engines: one whose KV space has room for four of the longest
contexts, at whole lengths, and two of the other evaluations at lengths that have the same share of their space. Load is
the engine time of all sessions, with all prefixes cached and the KV space full, over the window in which they arrive. A
cell is a setting, a seed and a way to serve.

The error of shares (:mod:`justitia_simulator.shares`) is the 95th percentile over windows in which both tenants waited.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import track

from justitia_benchmarks.document import table
from justitia_benchmarks.speed import publish
from justitia_benchmarks.statistics import digits, mean_interval, paired_ratio, quantile
from justitia_benchmarks.turns_told import Known, prediction
from justitia_cli.console import errors, mistakes
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime
from justitia_simulator.engine import Engine
from justitia_simulator.prediction import MEAN, PredictionSource
from justitia_simulator.profiles import find_profile
from justitia_simulator.records import PolicyResults
from justitia_simulator.shares import share_errors
from justitia_simulator.turns import reusable, turns
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import Seconds

SESSIONS = {"a": 1.0, "b": 1.0}
WEIGHTS = {"a": 1.0, "b": 2.0}


@dataclass(frozen=True)
class Setting:
    """An engine, its load, and how many sessions of which lengths it serves. `window` is for shares."""

    profile: str
    load: float
    scale: float
    sessions: int
    window: Seconds


SETTINGS = (
    Setting("a100-80g-llama3-8b", 1.0, 1.0, 100, 1800.0),
    Setting("a100-80g-llama3-8b", 2.0, 1.0, 100, 1800.0),
    Setting("h100-llama2-7b", 2.0, 0.25, 200, 300.0),
    Setting("a100-40g-llama2-7b", 2.0, 0.125, 200, 300.0),
)


@dataclass(frozen=True)
class Way:
    """A policy on an engine with or without a prefix cache, which keeps KV in pauses or not. `burst` is the gate's B
    where it is not the policy's own.
    """

    policy: str
    cache: bool = True
    keep: bool = False
    burst: Seconds | None = None
    told: Known | None = None

    @property
    def name(self) -> str:
        burst = "" if self.burst is None else f", B = {self.burst:g} s"
        cache = ("" if self.cache else ", no cache") + (", KV kept" if self.keep else "")
        return self.policy + burst + cache + (f", {self.told}" if self.told else "")


AGAINST = Way("vtc")
WAYS = (
    *(Way(policy, cache=False) for policy in ("vtc", "tiered-justitia")),
    *(Way(policy) for policy in ("fcfs", "vtc", "dlpm", "parrot", "tiered-justitia", "srjf")),
    Way("tiered-justitia", burst=5.0),
    *(Way(policy, keep=True) for policy in ("dlpm", "parrot", "tiered-justitia", "srjf")),
    Way("tiered-justitia", keep=True, burst=5.0),
    *(Way("tiered-justitia", keep=True, told=known) for known in Known),
)


class Served(msgspec.Struct, frozen=True):
    """What came of a cell: completion times of runs in seconds, the share of prompt tokens found, tokens a second."""

    mean: Seconds
    p99: Seconds
    found: float
    throughput: float
    share_error: float | None


Cell = tuple[Setting, int, Way]


def serve(cell: Cell) -> Served:
    setting, seed, way = cell
    profile = msgspec.structs.replace(find_profile(setting.profile), prefix_cache=way.cache, keep_paused=way.keep)
    runs = _sessions(setting, seed)

    def served(prediction: PredictionSource) -> PolicyResults:
        policy = build_policy(way.policy, EngineTime(profile.charge))
        if way.burst is not None:
            policy.tune({Knob.BURST: way.burst})
        return Engine(policy, profile, label=way.name, prediction=prediction).serve(runs, WEIGHTS)

    results = served(MEAN)
    if way.told is not None:
        results = served(prediction(way.told, runs, results, seed))
    return came_of(results, setting.window)


def came_of(results: PolicyResults, window: Seconds) -> Served:
    """What a cell's results say; shares over windows of that length."""
    jct = [r.jct for r in results.runs if r.jct is not None]
    end = max(r.finished or 0.0 for r in results.requests)
    prompts = sum(r.prompt_tokens for r in results.requests)
    unfair = share_errors(results, window)
    return Served(
        sum(jct) / len(jct),
        quantile(jct, 0.99),
        sum(r.cached_tokens for r in results.requests) / prompts,
        (prompts + sum(r.output_tokens for r in results.requests)) / end,
        quantile(unfair.tolist(), 0.95) if len(unfair) else None,
    )


def _sessions(setting: Setting, seed: int) -> list[WorkloadRun]:
    profile = find_profile(setting.profile)
    return turns(setting.sessions, seed=seed, load=setting.load, profile=profile, tenants=SESSIONS, scale=setting.scale)


def document(served: Mapping[Cell, Served], seeds: Sequence[int]) -> str:
    """The tables, in Markdown."""
    parts = [
        "# Sessions of agents that take turns",
        "Written by `make bench-turns`; `benchmarks/justitia_benchmarks/turns.py` says what is served, "
        "[the design note](../design/turns.md) what the sessions are. Simulated. Ratios are to VTC with the prefix "
        f"cache on the same sessions, geometric means over {len(seeds)} seeds with their 95 % intervals; other figures "
        "are means over the seeds.",
    ]
    for setting in SETTINGS:
        profile = find_profile(setting.profile)
        parts += [
            f"## {setting.profile}, load {setting.load:g}",
            f"{setting.sessions} sessions, lengths times {setting.scale:g}, KV space of {profile.kv_tokens:,} tokens; "
            f"{reusable(_sessions(setting, 1)):.1%} of the prompt tokens could be found. "
            f"Shares over {setting.window:g} s.",
            table(
                [
                    "",
                    "mean completion",
                    "÷ VTC",
                    "P99 ÷ VTC",
                    "tokens a second ÷ VTC",
                    "prompt found",
                    "error of shares",
                ],
                [_row(way, served, setting, seeds) for way in WAYS],
            ),
        ]
    return "\n\n".join(parts) + "\n"


def _row(way: Way, served: Mapping[Cell, Served], setting: Setting, seeds: Sequence[int]) -> list[str]:
    ours = [served[setting, seed, way] for seed in seeds]
    theirs = [served[setting, seed, AGAINST] for seed in seeds]
    errors_of_shares = [s.share_error for s in ours if s.share_error is not None]
    ratios = [
        paired_ratio([getattr(s, figure) for s in ours], [getattr(s, figure) for s in theirs])
        for figure in ("mean", "p99", "throughput")
    ]
    return [
        way.name,
        f"{digits(mean_interval([s.mean for s in ours]).mean)} s",
        *(f"{e.mean:.2f} ({e.low:.2f} to {e.high:.2f})" for e in ratios),
        f"{mean_interval([s.found for s in ours]).mean:.0%}",
        f"{mean_interval(errors_of_shares).mean:.3f}" if errors_of_shares else "never both waited",
    ]


def benchmark(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds")] = 6,
    jobs: Annotated[int, typer.Option(min=1, help="Processes")] = os.cpu_count() or 1,
    out: Annotated[Path | None, typer.Option(help="Markdown file for the tables")] = None,
) -> None:
    """Serve the sessions in each way and compare."""
    with mistakes():
        numbers = range(1, seeds + 1)
        cells: list[Cell] = list(product(SETTINGS, numbers, WAYS))
        with ProcessPoolExecutor(jobs) as pool:
            done = track(pool.map(serve, cells), "simulating", total=len(cells), console=errors, transient=True)
            served = dict(zip(cells, done, strict=True))
        publish(document(served, numbers), out)


if __name__ == "__main__":
    typer.run(benchmark)
