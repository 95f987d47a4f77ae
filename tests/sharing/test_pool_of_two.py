"""Two real sidecars, each with an engine that takes its time, share by weight whatever client reaches which."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from justitia_api.config import ValkeyConfig
from justitia_benchmarks.envoy_gateway import running_envoy
from justitia_benchmarks.paced_pool import PacedPool, Reached, ask, pool_config
from justitia_benchmarks.valkey_server import ValkeyServer, running_valkey
from justitia_vocabulary.units import Seconds

WEIGHTS = {"one": 1.0, "three": 3.0}
FLOODS = [(0, "one"), (0, "three"), (1, "three")]
"""All clients of `one` know the first pod alone."""
CLIENTS = 24
"""Requests that a tenant keeps open at each pod. With fewer it does not always have enough waiting for its share."""
WARM, MEASURED = 4.0, 24.0
"""Engine seconds of both, together."""
AHEAD: Seconds = 1.5
"""How far service per weight may be apart: what runs, slack, and what one second of not knowing is worth."""


class Flooded:
    """A pool that all clients keep busy, whatever fails."""

    def __init__(self, pool: PacedPool, client: aiohttp.ClientSession) -> None:
        self.pool = pool
        self._client = client

    async def served(self, enough: Seconds) -> dict[str, Seconds]:
        """What each tenant has been served, once it is so much in all."""
        async with asyncio.timeout(180):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    total = await self.pool.service(self._client)
                    if sum(total.values()) >= enough:
                        return {str(tenant): service for tenant, service in total.items()}
                await asyncio.sleep(0.1)

    async def serves(self, *, shares: bool) -> None:
        await self.pool.serves(self._client, shares=shares)


@asynccontextmanager
async def flooded(folder: Path, valkey: ValkeyServer | None, *, picked: bool = False) -> AsyncIterator[Flooded]:
    """`picked`: all requests come through a gateway, which asks the pods' endpoint pickers."""
    config = pool_config(WEIGHTS, None if valkey is None else ValkeyConfig(pool="p", addresses=(valkey.address,)))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        with PacedPool(config, folder, picked=picked) as pool, contextlib.ExitStack() as stack:
            pool.add()
            pool.add()
            await pool.serves(client, shares=valkey is not None)
            reached: Sequence[Reached] = pool.pods
            if picked:
                gateway = stack.enter_context(running_envoy(folder, [pod.picker_port for pod in pool.pods]))
                reached = [gateway] * len(pool.pods)
            tasks = [
                asyncio.create_task(keep_asking(client, reached[pod], tenant))
                for pod, tenant in FLOODS
                for _ in range(CLIENTS)
            ]
            try:
                yield Flooded(pool, client)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def keep_asking(client: aiohttp.ClientSession, at: Reached, tenant: str) -> None:
    while True:
        try:
            await ask(client, at, tenant, 64, 16)
        except aiohttp.ClientError:
            await asyncio.sleep(0.1)


async def ratio(pool: Flooded) -> float:
    """What `three` is served by what `one` is."""
    before = await pool.served(WARM)
    after = await pool.served(WARM + MEASURED)
    return (after["three"] - before["three"]) / (after["one"] - before["one"])


def apart(service: Mapping[str, Seconds]) -> Seconds:
    """By how much service per weight differs."""
    return abs(service["one"] - service["three"] / WEIGHTS["three"])


async def test_weights_hold_over_the_pool_whichever_pod_a_client_reaches(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        async with flooded(tmp_path, valkey) as pool:
            assert await ratio(pool) == pytest.approx(3.0, rel=0.2)


async def test_weights_hold_where_a_gateway_asks_which_pod_gets_a_request(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        async with flooded(tmp_path, valkey, picked=True) as pool:
            assert await ratio(pool) == pytest.approx(3.0, rel=0.2)


async def test_control_each_by_itself_gives_more_to_who_asks_more_of_them(tmp_path: Path) -> None:
    async with flooded(tmp_path, None) as pool:
        assert await ratio(pool) > 5.0


async def test_what_was_served_while_valkey_was_away_counts_when_it_is_back(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        async with flooded(tmp_path, valkey) as pool:
            before = await pool.served(8.0)
            assert apart(before) < AHEAD
            valkey.stop()
            away = await pool.served(30.0)
            assert apart(away) > AHEAD
            valkey.start()
            await pool.serves(shares=True)
            back = await pool.served(sum(away.values()) + 16.0)
            assert apart(back) < AHEAD


async def test_a_sidecar_that_is_killed_and_comes_back_takes_its_part_again(tmp_path: Path) -> None:
    """Its engine goes on with what it had begun, and no tenant gains: what it served is known to the others."""
    with running_valkey(tmp_path) as valkey:
        async with flooded(tmp_path, valkey) as pool:
            await pool.served(8.0)
            pool.pool.pods[1].restart_sidecar()
            await pool.serves(shares=True)
            again = await pool.served(16.0)
            end = await pool.served(sum(again.values()) + 16.0)
            grown = {tenant: end[tenant] - again[tenant] for tenant in WEIGHTS}
            assert grown["three"] / grown["one"] == pytest.approx(3.0, rel=0.2)


async def test_when_half_of_the_pool_goes_away_the_rest_shares_on(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        async with flooded(tmp_path, valkey) as pool:
            await pool.served(8.0)
            pool.pool.pods.pop().kill()
            await pool.serves(shares=True)
            before = await pool.served(0.0)
            after = await pool.served(sum(before.values()) + 16.0)
            grown = {tenant: after[tenant] - before[tenant] for tenant in WEIGHTS}
            assert grown["three"] / grown["one"] == pytest.approx(3.0, rel=0.2)
