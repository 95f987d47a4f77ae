"""Two real sidecars, each with an engine that takes its time, share by weight whatever client reaches which."""

import asyncio
import contextlib
from pathlib import Path

import aiohttp
import pytest

from justitia_api.config import ValkeyConfig
from justitia_benchmarks.paced_pool import PacedPool, ask, pool_config
from support.valkey_server import running_valkey

WEIGHTS = {"one": 1.0, "three": 3.0}
CLIENTS = 12
WARM, MEASURED = 4.0, 16.0
"""Engine seconds of both, together."""


async def keep_asking(client: aiohttp.ClientSession, pool: PacedPool, pod: int, tenant: str) -> None:
    while True:
        await ask(client, pool.pods[pod], tenant, 64, 16)


async def ratio(pool: PacedPool, *, shares: bool) -> float:
    """What `three` was served by `one`, whose clients know the first pod alone."""
    pool.add()
    pool.add()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as client:
        await pool.serves(client, shares=shares)
        floods = [(0, "one"), (0, "three"), (1, "three")]
        tasks = [
            asyncio.create_task(keep_asking(client, pool, pod, tenant))
            for pod, tenant in floods
            for _ in range(CLIENTS)
        ]
        try:
            before = await served(client, pool, WARM)
            after = await served(client, pool, WARM + MEASURED)
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks)
    return (after["three"] - before["three"]) / (after["one"] - before["one"])


async def served(client: aiohttp.ClientSession, pool: PacedPool, enough: float) -> dict[str, float]:
    """What each tenant has been served, once it is so much in all."""
    async with asyncio.timeout(120):
        while True:
            total = await pool.service(client)
            if sum(total.values()) >= enough:
                return {str(tenant): service for tenant, service in total.items()}
            await asyncio.sleep(0.1)


async def test_weights_hold_over_the_pool_whichever_pod_a_client_reaches(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        config = pool_config(WEIGHTS, ValkeyConfig(addresses=(valkey.address,)))
        with PacedPool(config, tmp_path) as pool:
            assert await ratio(pool, shares=True) == pytest.approx(3.0, rel=0.15)


async def test_control_each_by_itself_gives_more_to_who_asks_more_of_them(tmp_path: Path) -> None:
    with PacedPool(pool_config(WEIGHTS, None), tmp_path) as pool:
        assert await ratio(pool, shares=False) > 5.0
