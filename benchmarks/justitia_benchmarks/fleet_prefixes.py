"""Ways to place agents of several turns on several engines with a prefix cache, in simulation.

`python -m justitia_benchmarks.fleet_prefixes` (or `make bench-fleet`). docs/design/fleet.md says what the ways are. Two
tenants of weights 1 and 2 have as many sessions of :mod:`justitia_simulator.turns` each, so many for each engine, on
the engines and at the load of :mod:`.turns`, under tiered Justitia, which learns costs. A request comes in at an entry
that is drawn. A cell is a setting, a seed and a way. Ratios are to placement by prefix alone on the same sessions. The
error of shares (:mod:`justitia_simulator.shares`) is the 95th percentile over windows in which both tenants waited.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated

import msgspec
import typer
from rich.progress import track

from justitia_benchmarks.document import table
from justitia_benchmarks.speed import publish
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio
from justitia_benchmarks.turns import SESSIONS, SETTINGS, WEIGHTS, Served, Setting, came_of
from justitia_cli.console import errors, mistakes
from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.engine import Engine
from justitia_simulator.fleet import ByPrefix, Fleet, OnArrival
from justitia_simulator.fleet_counters import BoundOnArrival, entries
from justitia_simulator.profiles import EngineProfile, find_profile
from justitia_simulator.turns import turns
from justitia_vocabulary.units import Seconds

PLACED = SETTINGS[2:]
ENGINES = 4
SESSIONS_PER_ENGINE = 60
QUICK_SESSIONS_PER_ENGINE = 15
STALENESS: Seconds = 1.0


@dataclass(frozen=True)
class Way:
    """A way to place requests. `make` makes the fleet of engines of a profile, with a policy each and a seed."""

    name: str
    make: Callable[[Sequence[Policy], EngineProfile, int], Fleet]


def _by_tokens(policies: Sequence[Policy], profile: EngineProfile, seed: int, *, sticky: bool = False) -> Fleet:
    return OnArrival(policies, profile, profile.kv_tokens, sticky=sticky)


def _by_prefix(policies: Sequence[Policy], profile: EngineProfile, seed: int) -> Fleet:
    return ByPrefix(policies, profile, profile.kv_tokens)


def _shared(policies: Sequence[Policy], profile: EngineProfile, seed: int, *, prefixes: bool = True) -> Fleet:
    entry = entries(len(policies), seed)
    return BoundOnArrival(policies, profile, profile.kv_tokens, entry, STALENESS, runs=True, prefixes=prefixes)


BY_PREFIX = Way("nothing shared, by prefix alone", _by_prefix)
WAYS = (
    BY_PREFIX,
    Way("nothing shared, by tokens alone", _by_tokens),
    Way("nothing shared, a run stays where it began", partial(_by_tokens, sticky=True)),
    Way("S, by tokens alone", partial(_shared, prefixes=False)),
    Way("S", _shared),
)


Cell = tuple[Setting, int, Way, int]
"""A setting, a seed, a way, and how many sessions each engine has."""


def serve(cell: Cell) -> Served:
    setting, seed, way, sessions = cell
    profile = msgspec.structs.replace(find_profile(setting.profile), prefix_cache=True)
    runs = turns(
        sessions * ENGINES,
        seed=seed,
        load=setting.load * ENGINES,
        profile=profile,
        tenants=SESSIONS,
        scale=setting.scale,
    )
    policies = [TieredJustitia(EngineTime(profile.charge)) for _ in range(ENGINES)]
    results = Engine(way.make(policies, profile, seed), profile, label=way.name).serve(runs, WEIGHTS)
    return came_of(results, setting.window)


def document(served: Mapping[Cell, Served], seeds: Sequence[int], sessions: int) -> str:
    """The tables, in Markdown."""
    parts = [
        "# Many engines, one fair share: agents of several turns, simulated",
        "Written by `make bench-fleet`; `benchmarks/justitia_benchmarks/fleet_prefixes.py` says what is served, "
        f"[the design note](../design/fleet.md) what the ways are. {ENGINES} engines, {sessions} sessions for each. "
        f"Ratios are to placement by prefix alone on the same sessions, geometric means over {len(seeds)} seeds with "
        "their 95 % intervals; other figures are means over the seeds.",
    ]
    for setting in PLACED:
        parts += [
            f"## {setting.profile}, load {setting.load:g}",
            table(
                [
                    "",
                    "prompt found",
                    "÷ by prefix alone",
                    "mean completion",
                    "÷ by prefix alone",
                    "tokens a second ÷ by prefix alone",
                    "error of shares",
                ],
                [_row([_of(served, setting, seeds, each, sessions) for each in (way, BY_PREFIX)], way) for way in WAYS],
            ),
        ]
    return "\n\n".join(parts) + "\n"


def _of(
    served: Mapping[Cell, Served], setting: Setting, seeds: Sequence[int], way: Way, sessions: int
) -> Sequence[Served]:
    return [served[setting, seed, way, sessions] for seed in seeds]


def _row(both: Sequence[Sequence[Served]], way: Way) -> list[str]:
    ours, theirs = both
    found, mean, throughput = (
        paired_ratio([getattr(s, figure) for s in ours], [getattr(s, figure) for s in theirs])
        for figure in ("found", "mean", "throughput")
    )
    unfair = [s.share_error for s in ours if s.share_error is not None]
    return [
        way.name,
        f"{fmean(s.found for s in ours):.0%}",
        _interval(found),
        f"{digits(mean_interval([s.mean for s in ours]).mean)} s",
        _interval(mean),
        _interval(throughput),
        f"{fmean(unfair):.3f}" if unfair else "never both waited",
    ]


def _interval(ratio: Estimate) -> str:
    return f"{ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def benchmark(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sessions, two seeds")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes")] = os.cpu_count() or 1,
    out: Annotated[Path | None, typer.Option(help="Markdown file for the tables")] = None,
) -> None:
    """Serve the sessions in each way and compare."""
    with mistakes():
        numbers = range(1, 3 if quick else seeds + 1)
        sessions = QUICK_SESSIONS_PER_ENGINE if quick else SESSIONS_PER_ENGINE
        cells: list[Cell] = list(product(PLACED, numbers, WAYS, [sessions]))
        with ProcessPoolExecutor(jobs) as pool:
            done = track(pool.map(serve, cells), "simulating", total=len(cells), console=errors, transient=True)
            served = dict(zip(cells, done, strict=True))
        publish(document(served, numbers, sessions), out)


if __name__ == "__main__":
    typer.run(benchmark)
