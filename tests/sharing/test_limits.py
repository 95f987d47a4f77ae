"""Real sidecars of a pool keep a tenant's limits together, whatever client reaches which."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from justitia_api.config import TenantConfig, TenantLimits, ValkeyConfig
from justitia_api.status import LimitScope, PoolStatus
from justitia_benchmarks.paced_pool import MODEL, PacedPool, Pod, key_of, pool_config
from justitia_benchmarks.valkey_server import ValkeyServer, running_valkey
from justitia_vocabulary.units import Seconds

TENANT = "one"
SLOW = ("--per-step=0.04", "--seats=8")
PROMPT, OUTPUT = 64, 16
TOKENS = PROMPT + OUTPUT


@dataclass
class Clients:
    """What they see of answers: from the first part of each to its end, and how many are worked on in between."""

    pool: PacedPool
    valkey: ValkeyServer | None
    client: aiohttp.ClientSession
    at_once: int = 0
    most_at_once: int = 0
    refused: int = 0
    answered: dict[int, int] = field(default_factory=dict)
    """By pod."""

    async def ask(self, number: int) -> None:
        body = {"model": MODEL, "prompt": [1] * PROMPT, "max_tokens": OUTPUT, "stream": True, "ignore_eos": True}
        headers = {"authorization": f"Bearer {key_of(TENANT)}", "content-type": "application/json"}
        async with self.client.post(self.pool.pods[number].url, data=json.dumps(body), headers=headers) as answer:
            if answer.status != 200:
                self.refused += 1
                return
            await answer.content.readany()
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                await answer.read()
            finally:
                self.at_once -= 1
            self.answered[number] = self.answered.get(number, 0) + 1

    async def keep_asking(self, number: int) -> None:
        while True:
            try:
                await self.ask(number)
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def flooding(self, *pods: int, each: int = 6) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.keep_asking(pod)) for pod in pods for _ in range(each)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def eventually(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(90):
            while True:
                if true():
                    return
                await asyncio.sleep(0.05)

    async def says(self, pod: Pod, true: Callable[[PoolStatus], bool]) -> None:
        """Wait until the pod's status is so."""
        async with asyncio.timeout(90):
            while True:
                if true(await pod.status(self.client)):
                    return
                await asyncio.sleep(0.05)

    async def count_over(self, scope: LimitScope) -> None:
        for pod in self.pool.pods:
            await self.says(pod, lambda status: status.limits_over is scope)

    async def answers(self, more: int) -> None:
        """So many more at each pod."""
        before = dict(self.answered)
        pods = range(len(self.pool.pods))
        await self.eventually(lambda: all(self.seen(pod) >= before.get(pod, 0) + more for pod in pods))

    def seen(self, pod: int) -> int:
        return self.answered.get(pod, 0)


@asynccontextmanager
async def limited(folder: Path, valkey: ValkeyServer | None, pods: int = 2, **limits: int) -> AsyncIterator[Clients]:
    """A pool whose requests are served where they come in."""
    shared = None if valkey is None else ValkeyConfig(pool="p", addresses=(valkey.address,))
    tenant = TenantConfig(name=TENANT, weight=1.0, limits=TenantLimits.model_validate(limits))
    config = pool_config({TENANT: 1.0}, shared).model_copy(update={"tenants": (tenant,)})
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        with PacedPool(config, folder, SLOW, passes_on=False) as pool:
            for _ in range(pods):
                pool.add()
            await pool.serves(client, shares=valkey is not None)
            yield Clients(pool, valkey, client)


async def test_a_limit_of_running_requests_is_reached_and_never_exceeded_over_two_engines(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        async with limited(tmp_path, valkey, running_requests=2) as at:
            async with at.flooding(0, 1):
                await at.answers(6)
            assert at.most_at_once == 2
            assert "limits over the pool" in await top(at.pool.pods[0])


async def top(pod: Pod) -> str:
    """What `justitia top` says of a pod."""
    command = [sys.executable, "-m", "justitia_cli", "top", "--once", "--url", f"http://127.0.0.1:{pod.admin}"]
    shown = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    return (await shown.communicate())[0].decode()


async def test_control_each_by_itself_has_the_limit(tmp_path: Path) -> None:
    async with limited(tmp_path, None, running_requests=2) as at:
        assert (await at.pool.pods[0].status(at.client)).limits_over is LimitScope.ENGINE
        async with at.flooding(0, 1):
            await at.answers(6)
        assert at.most_at_once == 4


async def test_a_tenant_that_is_at_one_of_three_engines_alone_has_its_whole_limit(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        async with limited(tmp_path, valkey, pods=3, running_requests=4) as at:
            async with at.flooding(2, each=8):
                await at.eventually(lambda: at.at_once == 4)
            assert at.most_at_once == 4


async def test_the_slots_of_a_sidecar_that_is_killed_come_back(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        async with limited(tmp_path, valkey, running_requests=2) as at:
            async with at.flooding(0, 1):
                await at.answers(2)
                at.pool.pods[1].kill()
                await at.eventually(lambda: at.at_once == 2)
            assert at.most_at_once == 2


async def test_while_valkey_is_away_each_has_a_part_and_serves_on(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        async with limited(tmp_path, valkey, running_requests=4) as at:
            async with at.flooding(0, each=8):
                await at.eventually(lambda: at.at_once == 4)
                valkey.stop()
                await at.count_over(LimitScope.PART)
            async with at.flooding(0, 1):
                at.most_at_once = 0
                await at.answers(6)
                assert at.most_at_once == 4
                valkey.start()
                await at.count_over(LimitScope.POOL)
                at.most_at_once = at.at_once
                await at.answers(6)
            assert at.most_at_once == 4


async def tokens_after(at: Clients, seconds: Seconds) -> tuple[int, Seconds]:
    """The tokens that were served, while one client keeps asking at each engine; and the time that this took."""
    began = time.monotonic()
    async with at.flooding(0, 1, each=1):
        await at.eventually(lambda: time.monotonic() >= began + seconds)
        took = time.monotonic() - began
    return TOKENS * sum(at.answered.values()), took


LIMIT = 600
UNHEARD = 3 * TOKENS
"""What one engine accepts until the other has heard of it, and the last request, which may exceed what is left."""


@pytest.mark.parametrize("shared", [True, False], ids=["over the pool", "control: each by itself"])
async def test_tokens_per_minute_hold_over_two_engines(tmp_path: Path, shared: bool) -> None:
    with running_valkey(tmp_path) as valkey:
        async with limited(tmp_path, valkey if shared else None, tokens_per_minute=LIMIT) as at:
            tokens, took = await tokens_after(at, 20.0)
            allowed = LIMIT * (1 + took / 60) + UNHEARD
            assert at.refused
            assert (tokens <= allowed) is shared


async def test_requests_that_wait_at_one_engine_leave_no_room_at_the_other(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as valkey:
        async with limited(tmp_path, valkey, running_requests=1, queued_requests=4) as at:
            waiting = [asyncio.create_task(at.ask(0)) for _ in range(5)]
            await at.says(at.pool.pods[0], lambda status: status.tenants[0].queued == 4)
            while not at.refused:
                await at.ask(1)
            await asyncio.gather(*waiting)
