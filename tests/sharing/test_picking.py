"""Requests come through a real Envoy, which asks the endpoint pickers of real sidecars where each of them goes."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from justitia_api.config import ValkeyConfig
from justitia_benchmarks.envoy_gateway import SUBSET_HEADER, Bodies, EnvoyGateway, running_envoy
from justitia_benchmarks.paced_pool import MODEL, PacedPool, key_of, pool_config
from justitia_benchmarks.valkey_server import running_valkey
from justitia_sidecar.picker.replies import ENDPOINT
from support.pool_clients import TENANT, Clients

SLOW = ("--per-step=0.04", "--seats=4")
both = pytest.mark.parametrize("bodies", list(Bodies))


class Behind(Clients):
    """Clients that reach the pool through a gateway alone."""

    gateway: EnvoyGateway

    async def picks(self, where: str) -> float:
        """How many requests all pickers have sent there."""
        return sum([await self.metric(pod, "justitia_picks_total", where=where) for pod in self.pods])

    async def passed_on(self) -> float:
        return sum([await self.metric(pod, "justitia_passed_on_total", outcome="answered") for pod in self.pods])

    async def eventually_true(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while True:
                if condition():
                    return
                await asyncio.sleep(0.05)

    def endpoint(self, pod: int) -> str:
        return f"127.0.0.1:{self.pods[pod].port}"


@asynccontextmanager
async def behind(
    folder: Path,
    bodies: Bodies = Bodies.FULL_DUPLEX,
    engine: Sequence[str] = SLOW,
    pods: int = 2,
    pickers: slice = slice(None),
) -> AsyncIterator[Behind]:
    """The gateway asks the pickers of the pods in that `slice`."""
    with running_valkey(folder) as valkey:
        config = pool_config({TENANT: 1.0}, ValkeyConfig(pool="p", addresses=(valkey.address,)))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            with PacedPool(config, folder, engine, picked=True) as pool:
                for _ in range(pods):
                    pool.add()
                found = Behind(pool, client)
                await found.share()
                with running_envoy(folder, [pod.picker_port for pod in pool.pods[pickers]], bodies) as found.gateway:
                    yield found


@both
async def test_requests_go_straight_to_the_engine_that_has_least(tmp_path: Path, bodies: Bodies) -> None:
    """The picker of a pod that has something to do is asked."""
    async with behind(tmp_path, bodies, pickers=slice(1)) as at:
        busy = asyncio.ensure_future(at.ask(at.pods[0], 1024))
        await at.eventually(at.pods[0], 1, "justitia_running_requests")
        for number in range(1, 4):
            assert (await at.ask(at.gateway, 2, **{ENDPOINT: at.endpoint(0)})).whole
            assert await at.picks("elsewhere") == number
        assert await at.served() == [0, 3]
        assert await at.passed_on() == 0
        await streamed_as_it_comes(at)
        await nothing_else_is_picked(at)
        busy.cancel()


async def streamed_as_it_comes(at: Behind) -> None:
    """The first part of an answer is here long before its last."""
    parts: list[float] = []
    body = {"model": MODEL, "prompt": [1], "max_tokens": 20, "stream": True, "ignore_eos": True}
    headers = {"authorization": f"Bearer {key_of(TENANT)}", "content-type": "application/json"}
    async with at.client.post(at.gateway.url, json=body, headers=headers) as answer:
        async for _ in answer.content.iter_any():
            parts.append(time.monotonic())
    assert len(parts) >= 15
    assert parts[-1] - parts[0] >= 15 * 0.04


async def nothing_else_is_picked(at: Behind) -> None:
    """The gateway may name a subset; and what the sidecars refuse, they refuse."""
    served = await at.served()
    assert (await at.ask(at.gateway, 2, **{SUBSET_HEADER: f"10.0.0.9:1,{at.endpoint(1)}"})).whole
    assert await at.served() == [served[0], served[1] + 1]
    nowhere = await at.ask(at.gateway, 2, **{SUBSET_HEADER: "10.0.0.9:1"})
    assert (nowhere.status, nowhere.code) == (503, "engine_unavailable")
    assert nowhere.headers["Retry-After"] == "2"
    wrong = await at.ask(at.gateway, 2, authorization="Bearer wrong")
    assert (wrong.status, wrong.code) == (401, "invalid_api_key")
    large = await at.ask(at.gateway, 2, padding="x" * 50_000)
    assert large.whole


@both
async def test_a_burst_between_two_updates_is_spread(tmp_path: Path, bodies: Bodies) -> None:
    """What was picked counts at once, so a picker does not send all to the same pod."""
    async with behind(tmp_path, bodies) as at:
        answers = await at.ask_at_once(at.gateway, 32)
        assert all(answer.whole for answer in answers), answers
        assert min(await at.served()) >= 10
        assert await at.picks("here") + await at.picks("elsewhere") == 32
        await what_goes(at)


async def test_when_a_picker_dies_another_one_is_asked(tmp_path: Path) -> None:
    async with behind(tmp_path) as at:
        dead = at.pods[0].picker
        assert dead is not None
        dead.kill()
        await at.eventually_true(lambda: at.gateway.healthy_pickers == 1)
        answers = await at.ask_at_once(at.gateway, 8)
        assert all(answer.whole for answer in answers), answers
        assert min(await at.served()) >= 2


async def what_goes(at: Behind) -> None:
    """A pod that shuts down is not picked, and its picker stops when its requests are over; then one that dies."""
    under_way = at.ask_at_once(at.gateway, 8, 64)
    await asyncio.gather(*(at.eventually(pod, 1, "justitia_running_requests") for pod in at.pods))
    gone, stays = at.pods
    assert gone.picker is not None
    gone.sidecar.send_signal(signal.SIGTERM)
    await at.eventually_true(lambda: at.gateway.healthy_pickers == 1 or gone.sidecar.poll() is not None)
    gone.picker.send_signal(signal.SIGTERM)
    assert all(answer.whole for answer in await under_way)
    await at.eventually_true(lambda: at.gateway.healthy_pickers == 1)
    at.pods.pop(0)
    before = (await at.served())[0]
    assert all(answer.whole for answer in await at.ask_at_once(at.gateway, 8))
    assert await at.served() == [before + 8]
    assert stays.picker is not None
    assert gone.picker.wait(30) == 0
