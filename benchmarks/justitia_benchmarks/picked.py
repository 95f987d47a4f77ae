"""What an endpoint picker adds to a request, beside what the hop between two sidecars adds.

`python -m justitia_benchmarks.picked [SECONDS]`. Two pods, the engine of the first of which is ended, so that all
requests are served by the second. `RATE` requests a second come to the pool, each in another way than the one before.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp

from justitia_api.config import ValkeyConfig
from justitia_benchmarks.envoy_gateway import Bodies, running_envoy, running_plain_envoy
from justitia_benchmarks.paced_pool import PacedPool, Reached, ask, pool_config
from justitia_benchmarks.passed_on import FAST, NOTICED_WITHIN, OUTPUT, PROMPT, RATE, TENANT
from justitia_benchmarks.statistics import quantile
from justitia_benchmarks.valkey_server import running_valkey
from justitia_cli.console import output
from justitia_vocabulary.units import Seconds

DIRECT = "straight to the pod"
PASSED_ON = "passed on by a sidecar"
PLAIN = "Envoy that asks nobody"
DUPLEX = "Envoy, bodies in full duplex"
BUFFERED = "Envoy, bodies kept"


async def measure(folder: Path, seconds: Seconds) -> dict[str, list[Seconds]]:
    """Times to the first part of an answer, by the way of the request."""
    with running_valkey(folder) as valkey:
        config = pool_config({TENANT: 1.0}, ValkeyConfig(pool="p", addresses=(valkey.address,)))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            with PacedPool(config, folder, FAST, picked=True) as pool:
                first, second = pool.add(), pool.add()
                await pool.serves(client, shares=True)
                pickers = [pod.picker_port for pod in pool.pods]
                with (
                    running_envoy(folder, pickers, Bodies.FULL_DUPLEX) as duplex,
                    running_envoy(folder, pickers, Bodies.BUFFERED) as buffered,
                    running_plain_envoy(folder, second.port) as plain,
                ):
                    first.engine.kill()
                    await asyncio.sleep(NOTICED_WITHIN)
                    ways: dict[str, Reached] = {
                        DIRECT: second,
                        PASSED_ON: first,
                        PLAIN: plain,
                        DUPLEX: duplex,
                        BUFFERED: buffered,
                    }
                    return await _ask(client, ways, seconds)


async def _ask(
    client: aiohttp.ClientSession, ways: Mapping[str, Reached], seconds: Seconds
) -> dict[str, list[Seconds]]:
    found: dict[str, list[Seconds]] = {way: [] for way in ways}

    async def once(way: str) -> None:
        began = time.monotonic()
        heard: list[Seconds] = []
        await ask(client, ways[way], TENANT, PROMPT, OUTPUT, lambda: heard.append(time.monotonic() - began))
        found[way].append(heard[0])

    names = list(ways)
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(int(seconds * RATE)):
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            group.create_task(once(names[number % len(names)]))
    return found


def table(found: Mapping[str, Sequence[Seconds]]) -> str:
    """Milliseconds, and how much more than straight to the pod."""
    lines = ["| way | P50 | P99 | more, P50 | more, P99 |", "|---|---|---|---|---|"]
    for way, times in found.items():
        values = [1000 * quantile(times, q) for q in (0.5, 0.99)]
        more = [value - 1000 * quantile(found[DIRECT], q) for value, q in zip(values, (0.5, 0.99), strict=True)]
        lines.append(f"| {way} | " + " | ".join(f"{value:.2f}" for value in (*values, *more)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        output.print(table(asyncio.run(measure(Path(folder), float((*sys.argv[1:], "60")[0])))))
