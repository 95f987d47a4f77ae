"""What it adds to a request that it is passed on from one sidecar to another.

Two pods. The engine of the first is ended, so it passes on all that comes to it. For some time `RATE` requests a second
come to the pool, in turn to the first and to the second: all are served by the same engine at the same time.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from justitia_api.config import ValkeyConfig
from justitia_benchmarks.paced_pool import PacedPool, Pod, ask, pool_config
from justitia_benchmarks.statistics import quantile
from justitia_benchmarks.valkey_server import running_valkey
from justitia_vocabulary.units import Seconds

RATE = 100.0
TENANT = "one"
PROMPT, OUTPUT = 64, 4
FAST = ("--per-step=0.001", "--per-token=0", "--seats=64", "--kv-tokens=65536")
NOTICED_WITHIN: Seconds = 3.0
"""The time after which the first sidecar knows that its engine is gone, and the second that there is another."""


@dataclass(frozen=True)
class Times:
    """To the first part of an answer, of all requests that came to one pod."""

    of: Sequence[Seconds]

    def quantile(self, q: float) -> Seconds:
        return quantile(self.of, q)


@dataclass(frozen=True)
class Added:
    """`direct` are requests that reached the pod that serves them, `passed_on` the others."""

    direct: Times
    passed_on: Times

    def at(self, q: float) -> Seconds:
        return self.passed_on.quantile(q) - self.direct.quantile(q)


async def measure(folder: Path, seconds: Seconds) -> Added:
    with running_valkey(folder) as valkey:
        config = pool_config({TENANT: 1.0}, ValkeyConfig(pool="p", addresses=(valkey.address,)))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            with PacedPool(config, folder, FAST) as pool:
                passes_on, serves = pool.add(), pool.add()
                await pool.serves(client, shares=True)
                passes_on.engine.kill()
                await asyncio.sleep(NOTICED_WITHIN)
                return await _ask(client, passes_on, serves, seconds)


async def _ask(client: aiohttp.ClientSession, passes_on: Pod, serves: Pod, seconds: Seconds) -> Added:
    found: dict[int, list[Seconds]] = {passes_on.port: [], serves.port: []}

    async def once(pod: Pod) -> None:
        began = time.monotonic()
        heard: list[Seconds] = []
        await ask(client, pod, TENANT, PROMPT, OUTPUT, lambda: heard.append(time.monotonic() - began))
        found[pod.port].append(heard[0])

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(int(seconds * RATE)):
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            group.create_task(once((passes_on, serves)[number % 2]))
    return Added(Times(found[serves.port]), Times(found[passes_on.port]))
