"""Ways to serve tenants by several engines as by one, in simulation.

`python -m justitia_benchmarks.fleet_simulation` (or `make bench-fleet`). docs/design/fleet.md says what the ways are
and which is taken. R engines, `a10g-llama2-7b-vllm` with a token budget of 512, serve three tenants of weights 1, 2 and
4 under tiered Justitia with true costs. Each tenant that floods sends short agent runs (EV, CC, KBQAV and SC in turn)
for `SECONDS`:
10 R at once and the others evenly drawn, work for 1.3 times its share, by weight among those that flood, of the engine
time that there is. Two scenarios:

- *light*: the tenant of weight 4 sends one short chat request every 10 s / R by a Poisson process, the others flood;
- *flood*: all flood.

A request comes in at an entry that is drawn, or, *apart*, all of the first tenant at one and all of the second at
another. A cell is a scenario, a number of engines, a seed and a way to serve. Ratios are to one queue on the same runs.
The error of shares (:mod:`justitia_simulator.shares`) is the 95th percentile over windows of a minute.
"""

import os
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Annotated

import msgspec
import typer
from rich.progress import track

from justitia_benchmarks.document import table
from justitia_benchmarks.experiments.justitia.serving import as_served
from justitia_benchmarks.fleet_ways import ONE_QUEUE, PROFILE, WAYS, Way
from justitia_benchmarks.speed import publish
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio, quantile
from justitia_cli.console import errors, mistakes
from justitia_simulator.agents import agent_run
from justitia_simulator.arrivals import full_engine_seconds
from justitia_simulator.engine import Engine
from justitia_simulator.prediction import TRUE
from justitia_simulator.shares import share_errors
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId

WEIGHTS = {"one": 1.0, "two": 2.0, "four": 4.0}
LIGHT = "four"
SCENARIOS = {"light": ("one", "two"), "flood": ("one", "two", "four")}
"""Those that flood."""
CLASSES = ("EV", "CC", "KBQAV", "SC")
OVERLOAD = 1.3
AT_ONCE = 10
CHAT = WorkloadRequest(128, 64)
BETWEEN_CHATS: Seconds = 10.0
WINDOW: Seconds = 60.0
SECONDS: Seconds = 100.0
QUICK_SECONDS: Seconds = 80.0
ENGINES = (1, 2, 8)
QUICK_ENGINES = (2,)


class Served(msgspec.Struct, frozen=True):
    """What came of a cell. `mean` is of completion times, `first_token` of the tenant that asks little; `idle` is the
    part of the engines' time in which one did nothing while a request waited.
    """

    mean: Seconds
    first_token: Seconds
    share_error: float | None
    idle: float
    messages_per_request: float
    exchanged_per_second: float


Cell = tuple[str, int, int, Way, Seconds]
"""Scenario, engines, seed, way, and for how long tenants send."""


def serve(cell: Cell) -> Served:
    scenario, engines, seed, way, seconds = cell
    fleet = way.fleet(engines, seed)
    results = Engine(fleet, PROFILE, label=way.name, prediction=TRUE).serve(
        runs(scenario, engines, seed, seconds), WEIGHTS
    )
    end = max(r.finished or 0.0 for r in results.requests)
    first = [r.first_token - r.ready for r in results.requests if r.tenant == LIGHT and r.first_token is not None]
    unfair = share_errors(results, WINDOW).tolist()
    return Served(
        fmean(r.jct for r in results.runs if r.jct is not None),
        fmean(first),
        quantile(unfair, 0.95) if unfair else None,
        fleet.idle / (engines * end),
        fleet.messages / len(results.requests),
        fleet.exchanged / end,
    )


def runs(scenario: str, engines: int, seed: int, seconds: Seconds) -> list[WorkloadRun]:
    """In order of arrival."""
    flooders = SCENARIOS[scenario]
    asked = [run for tenant in flooders for run in _flooder(tenant, flooders, engines, seed, seconds)]
    if LIGHT not in flooders:
        asked += _light(engines, seed, seconds)
    return sorted(asked, key=lambda run: run.arrival)


def _flooder(tenant: str, flooders: Sequence[str], engines: int, seed: int, seconds: Seconds) -> list[WorkloadRun]:
    rng = random.Random(f"{seed}/{tenant}")
    wanted = OVERLOAD * seconds * engines * WEIGHTS[tenant] / sum(WEIGHTS[each] for each in flooders)
    flood: list[WorkloadRun] = []
    work = 0.0
    while work < wanted:
        arrival = 0.0 if len(flood) < AT_ONCE * engines else round(rng.uniform(0.0, seconds), 3)
        name = f"{tenant}-{len(flood)}"
        flood.append(as_served(agent_run(CLASSES[len(flood) % len(CLASSES)], name, tenant, arrival, rng)))
        work += full_engine_seconds(flood[-1].requests, PROFILE)
    return flood


def _light(engines: int, seed: int, seconds: Seconds) -> list[WorkloadRun]:
    rng = random.Random(f"{seed}/{LIGHT}")
    rate = engines / BETWEEN_CHATS
    asked: list[WorkloadRun] = []
    moment = rng.expovariate(rate)
    while moment < seconds:
        name, stages = RunId(f"{LIGHT}-{len(asked)}"), (WorkloadStage((CHAT,)),)
        asked.append(WorkloadRun(name, TenantId(LIGHT), ApplicationId("chat"), round(moment, 3), stages))
        moment += rng.expovariate(rate)
    return asked


@dataclass(frozen=True)
class Measured:
    """The cells that were served."""

    served: Mapping[Cell, Served]
    seeds: Sequence[int]
    engines: Sequence[int]
    seconds: Seconds

    def of(self, scenario: str, engines: int, way: Way) -> list[Served]:
        """One for each seed."""
        return [self.served[scenario, engines, seed, way, self.seconds] for seed in self.seeds]


def document(measured: Measured) -> str:
    """The tables, in Markdown."""
    parts = [
        "# Many engines, one fair share: ways to serve, simulated",
        "Written by `make bench-fleet`; `benchmarks/justitia_benchmarks/"
        "fleet_simulation.py` says what is served, [the design note](../design/fleet.md) what the ways are. Ratios are "
        f"to one queue on the same runs, geometric means over {len(measured.seeds)} seeds with their 95 % intervals; "
        f"other figures are means over the seeds. Tenants send for {measured.seconds:g} s.",
    ]
    for scenario, engines in product(SCENARIOS, measured.engines):
        light = LIGHT not in SCENARIOS[scenario]
        parts += [
            f"## {scenario}, R = {engines}",
            table(
                [
                    "",
                    "mean completion",
                    "÷ one queue",
                    *(["light tenant's first token", "÷ one queue"] if light else []),
                    "error of shares",
                    "idle while some wait",
                    "messages a request",
                    "to the store, 1/s",
                ],
                [_row(measured, scenario, engines, way, light=light) for way in WAYS],
            ),
        ]
    return "\n\n".join(parts) + "\n"


def _row(measured: Measured, scenario: str, engines: int, way: Way, *, light: bool) -> list[str]:
    ours, theirs = measured.of(scenario, engines, way), measured.of(scenario, engines, ONE_QUEUE)
    unfair = [s.share_error for s in ours if s.share_error is not None]
    row = [way.name, *_beside([s.mean for s in ours], [s.mean for s in theirs])]
    if light:
        row += _beside([s.first_token for s in ours], [s.first_token for s in theirs])
    return [
        *row,
        f"{fmean(unfair):.3f}" if unfair else "never both waited",
        f"{fmean(s.idle for s in ours):.2%}",
        f"{fmean(s.messages_per_request for s in ours):.2f}",
        f"{fmean(s.exchanged_per_second for s in ours):.1f}",
    ]


def _beside(ours: Sequence[Seconds], theirs: Sequence[Seconds]) -> list[str]:
    """The mean, and the ratio with its interval."""
    ratio: Estimate = paired_ratio(ours, theirs)
    return [f"{digits(mean_interval(ours).mean)} s", f"{ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"]


def benchmark(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Two engines, less time, two seeds")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes")] = os.cpu_count() or 1,
    out: Annotated[Path | None, typer.Option(help="Markdown file for the tables")] = None,
) -> None:
    """Serve the runs in each way and compare."""
    with mistakes():
        numbers = range(1, 3 if quick else seeds + 1)
        seconds, sizes = (QUICK_SECONDS, QUICK_ENGINES) if quick else (SECONDS, ENGINES)
        cells: list[Cell] = list(product(SCENARIOS, sizes, numbers, WAYS, [seconds]))
        with ProcessPoolExecutor(jobs) as pool:
            done = track(pool.map(serve, cells), "simulating", total=len(cells), console=errors, transient=True)
            served = dict(zip(cells, done, strict=True))
        publish(document(Measured(served, numbers, sizes, seconds)), out)


if __name__ == "__main__":
    typer.run(benchmark)
