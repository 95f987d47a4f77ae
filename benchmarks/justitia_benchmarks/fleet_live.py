"""Real sidecars that share over a real Valkey, each in front of an engine that takes its time (`paced_engine.py`).

`python -m justitia_benchmarks.fleet_live` (or `make bench-fleet`). R pods serve three tenants of weights 1, 2 and 4
under the default policy. Those of weights 1 and 2 flood: each keeps `CLIENTS` requests open for each engine of the
pool, and sends each to a pod that is drawn. That of weight 4 asks a single short request now and then. *Skewed*: the
clients of the first flooder know half of the pods only. *Each by itself*: nothing is shared, and a request is served by
the engine of the pod that it reaches. *Shared*: as the product does it. What is added to a request that is passed on is
measured beside one that is not (`passed_on.py`).

A pod's engine is slow on purpose, so that two processors carry eight of them: figures of time are to be read against
those of R = 1. Each cell lasts `SECONDS`; what was served in its first `WARM` seconds does not count.
"""

import asyncio
import os
import random
import re
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Annotated

import aiohttp
import typer
from rich.progress import track

from justitia_api.config import ValkeyConfig
from justitia_benchmarks.document import table
from justitia_benchmarks.paced_pool import PacedPool, Pod, ask, pool_config
from justitia_benchmarks.passed_on import RATE, Added, measure
from justitia_benchmarks.speed import publish
from justitia_benchmarks.valkey_server import ValkeyServer, running_valkey
from justitia_cli.console import errors, mistakes
from justitia_vocabulary.units import Seconds, TenantId, Tokens

WEIGHTS = {"one": 1.0, "two": 2.0, "four": 4.0}
FLOODERS = ("one", "two")
LIGHT = "four"
CLIENTS = 24
PROMPT, OUTPUT = 64, 16
"""Tokens of each request."""
PACE = ("--per-step=0.15", "--per-token=0.0005", "--seats=12", "--kv-tokens=2048", "--token-budget=256")
BETWEEN: Seconds = 4.0
"""Between two of the light tenant's requests, for each engine."""
SECONDS: Seconds = 60.0
WARM: Seconds = 10.0
QUICK_SECONDS: Seconds = 30.0
ENGINES = (1, 2, 4, 8)
QUICK_ENGINES = (1, 2)
BY_ITSELF, SHARED = "each by itself", "shared"
EVEN, SKEWED = "even", "skewed"

_EXCHANGE = re.compile(r'^justitia_pool_exchange_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    engines: int
    layout: str
    way: str
    seed: int


@dataclass(frozen=True)
class Found:
    """What came of a cell. `ratio` is what the flooders were served, the second by the first. `exchanges` counts those
    of all sidecars by the bound of their bucket, in seconds; `valkey` is the part of a processor that it used, and
    `passed_on` the part of the requests that another engine served than the one that they reached.
    """

    ratio: float
    tokens_per_second: float
    first_token: Seconds
    exchanges: dict[float, float]
    valkey: float
    passed_on: float


class Load:
    """The tenants' clients, for a time."""

    def __init__(self, client: aiohttp.ClientSession, pods: Sequence[Pod], cell: Cell) -> None:
        self._client = client
        self._pods = pods
        self._cell = cell
        self._rng = random.Random(f"{cell}")
        self.tokens: list[tuple[Seconds, Tokens]] = []
        """When a request of a flooder was over, and how many tokens it had."""
        self.first: list[tuple[Seconds, Seconds]] = []
        """When a request of the light tenant was asked, and what it took to its first token."""

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        flood = (self._flood(tenant) for tenant in FLOODERS for _ in range(CLIENTS * self._cell.engines))
        tasks = [asyncio.create_task(each) for each in (*flood, self._light())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _reaches(self, tenant: str) -> Pod:
        half = self._cell.layout == SKEWED and tenant == FLOODERS[0]
        return self._rng.choice(self._pods[: max(1, len(self._pods) // 2)] if half else self._pods)

    async def _flood(self, tenant: str) -> None:
        while True:
            await ask(self._client, self._reaches(tenant), tenant, PROMPT, OUTPUT)
            self.tokens.append((time.monotonic(), PROMPT + OUTPUT))

    async def _light(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._rng.expovariate(self._cell.engines / BETWEEN))
                group.create_task(self._ask_once())

    async def _ask_once(self) -> None:
        began = time.monotonic()
        heard: list[Seconds] = []
        await ask(self._client, self._reaches(LIGHT), LIGHT, PROMPT, OUTPUT, lambda: heard.append(time.monotonic()))
        self.first.append((began, heard[0] - began))


async def serve(cell: Cell, seconds: Seconds, folder: Path) -> Found:
    with ExitStack() as stack:
        valkey = stack.enter_context(running_valkey(folder)) if cell.way == SHARED else None
        config = pool_config(WEIGHTS, None if valkey is None else ValkeyConfig(pool="p", addresses=(valkey.address,)))
        pool = stack.enter_context(PacedPool(config, folder, PACE))
        for _ in range(cell.engines):
            pool.add()
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as client:
            await pool.serves(client, shares=valkey is not None)
            load = Load(client, pool.pods, cell)
            async with load.going_on():
                await asyncio.sleep(WARM)
                began, before, used = time.monotonic(), await pool.service(client), _used(valkey)
                await asyncio.sleep(seconds - WARM)
                after, took, used = await pool.service(client), time.monotonic() - began, _used(valkey) - used
            first, second = (after[TenantId(tenant)] - before[TenantId(tenant)] for tenant in FLOODERS)
            exchanges = await _exchanges(client, pool.pods) if valkey is not None else {}
            passed_on = sum([await pod.passed_on(client) for pod in pool.pods])
    return Found(
        second / first,
        sum(tokens for moment, tokens in load.tokens if began <= moment <= began + took) / took,
        fmean(waited for moment, waited in load.first if moment >= began),
        exchanges,
        used / took,
        passed_on / (len(load.tokens) + len(load.first)),
    )


def _used(valkey: ValkeyServer | None) -> Seconds:
    return 0.0 if valkey is None else valkey.processor_time


async def _exchanges(client: aiohttp.ClientSession, pods: Sequence[Pod]) -> dict[float, float]:
    counts: dict[float, float] = {}
    for pod in pods:
        async with client.get(f"http://127.0.0.1:{pod.admin}/metrics") as answer:
            for bound, count in _EXCHANGE.findall(await answer.text()):
                counts[float(bound)] = counts.get(float(bound), 0.0) + float(count)
    return counts


def within(exchanges: dict[float, float], part: float) -> float:
    """The smallest bound within which that part of the exchanges were, in seconds."""
    total = max(exchanges.values())
    return next(bound for bound, count in sorted(exchanges.items()) if count >= part * total)


def document(
    found: dict[Cell, Found], added: Sequence[Added], sizes: Sequence[int], seeds: Sequence[int], seconds: Seconds
) -> str:
    def of(engines: int, layout: str, way: str) -> list[Found]:
        return [found[Cell(engines, layout, way, seed)] for seed in seeds]

    alone = of(1, EVEN, BY_ITSELF)
    rows = []
    for engines, layout, way in _combinations(sizes):
        here = of(engines, layout, way)
        speed = [f.tokens_per_second / (engines * a.tokens_per_second) for f, a in zip(here, alone, strict=True)]
        row = [
            str(engines),
            layout,
            way,
            _spread([f.ratio for f in here]),
            _spread([f.first_token / a.first_token for f, a in zip(here, alone, strict=True)]),
            _spread(speed),
        ]
        if way == SHARED:
            bounds = [1e3 * within(_sum(here), part) for part in (0.5, 0.99)]
            row += [f"{bounds[0]:g}, {bounds[1]:g} ms", f"{median(f.valkey for f in here):.2%}"]
            row.append(f"{median(f.passed_on for f in here):.0%}")
        rows.append([*row, *[""] * (9 - len(row))])
    first = _spread([a.first_token for a in alone])
    rate = _spread([a.tokens_per_second for a in alone])
    return "\n\n".join(
        [
            "# Many engines, one fair share: real sidecars, real Valkey, paced engines",
            "Written by `make bench-fleet`; `benchmarks/justitia_benchmarks/fleet_live.py` says what is served. The "
            f"flooders' weights are 1 : 2, so their ratio should be 2. Seeds: {len(seeds)}, {seconds:g} s each, on "
            f"{os.cpu_count()} processors; the middle one, and in brackets the smallest and the largest.",
            table(
                [
                    "engines",
                    "layout",
                    "way",
                    "flooders' ratio",
                    "light tenant's first token ÷ that with one engine",
                    "tokens/s ÷ (engines × one engine's)",
                    "exchange within, P50, P99",
                    "Valkey's part of a processor",
                    "passed on",
                ],
                rows,
            ),
            f"With one engine the light tenant's first token takes {first} s, and the engine has {rate} tokens/s. An "
            "exchange is not on the way of a request.",
            f"A request that is passed on has its first token {_added(added, 0.5)} ms later at the median, and "
            f"{_added(added, 0.99)} ms at the 99th percentile, than one that is not, at {RATE:g} requests a "
            f"second on one engine. One that is not has it after {_direct(added, 0.5)} and {_direct(added, 0.99)} ms.",
        ]
    )


def _combinations(sizes: Sequence[int]) -> list[tuple[int, str, str]]:
    several = [each for each in product(sizes, (EVEN, SKEWED), (BY_ITSELF, SHARED)) if each[0] > 1]
    return [(1, EVEN, BY_ITSELF), *several]


def _sum(found: Sequence[Found]) -> dict[float, float]:
    total: dict[float, float] = {}
    for each in found:
        for bound, count in each.exchanges.items():
            total[bound] = total.get(bound, 0.0) + count
    return total


def _added(added: Sequence[Added], q: float) -> str:
    return _spread([1e3 * each.at(q) for each in added])


def _direct(added: Sequence[Added], q: float) -> str:
    return _spread([1e3 * each.direct.quantile(q) for each in added])


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def benchmark(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Two engines at most, one seed, half the time")] = False,
    out: Annotated[Path | None, typer.Option(help="Markdown file for the table")] = None,
) -> None:
    """Serve tenants by pools of several engines. Leave the machine alone meanwhile."""
    with mistakes(), tempfile.TemporaryDirectory() as folder:
        numbers = range(1, 2 if quick else seeds + 1)
        seconds, sizes = (QUICK_SECONDS, QUICK_ENGINES) if quick else (SECONDS, ENGINES)
        cells = [Cell(*each, seed) for seed in numbers for each in _combinations(sizes)]
        found: dict[Cell, Found] = {}
        for number, cell in enumerate(track(cells, "serving", console=errors, transient=True)):
            own = Path(folder) / str(number)
            own.mkdir()
            found[cell] = asyncio.run(serve(cell, seconds, own))
        added = []
        for number in numbers:
            own = Path(folder) / f"passed-on-{number}"
            own.mkdir()
            added.append(asyncio.run(measure(own, seconds / 3)))
        publish(document(found, added, sizes, numbers, seconds) + "\n", out)


if __name__ == "__main__":
    typer.run(benchmark)
