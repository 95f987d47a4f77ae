"""Clients that ask again at once, whatever they are told, are refused at a pace; others are served as if alone."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from justitia_sidecar.ports import public
from justitia_sidecar.request import entry
from support.asking import ask
from support.misbehaving_engine import MisbehavingEngine
from support.serving import KEYS, RunningSidecar, running_sidecar

CLIENTS = 40
ASKED = 150
"""By all clients together, at least."""


@pytest.fixture
async def sidecar(tmp_path: Path) -> AsyncIterator[RunningSidecar]:
    async with MisbehavingEngine().serving() as engine:
        starting = running_sidecar(tmp_path / "sidecar", engine.url)
        yield await asyncio.to_thread(starting.__enter__)
        await asyncio.to_thread(starting.__exit__, None, None, None)


@pytest.mark.parametrize(
    ("key", "status", "immediate", "a_second"),
    [
        (KEYS["silver"], 429, entry.IMMEDIATE_REFUSALS, entry.REFUSALS_A_SECOND),
        ("sk-nobody-0123456789abcdef", 401, public.IMMEDIATE_WRONG_KEYS, public.WRONG_KEYS_A_SECOND),
    ],
    ids=["over its limit", "wrong key"],
)
async def test_who_asks_again_at_once_is_slowed_down(
    sidecar: RunningSidecar, key: str, status: int, immediate: int, a_second: float
) -> None:
    limited = {"name": "silver", "weight": 1, "limits": {"tokensPerMinute": 1}}
    await asyncio.to_thread(sidecar.reconfigure, tenants=[{"name": "gold", "weight": 4}, limited])
    refused: Counter[int] = Counter()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as client:
        if status == 429:
            assert await ask(client, sidecar, key) == 200  # the one that uses its minute up

        async def insist() -> None:
            while refused[status] < ASKED:
                refused[await ask(client, sidecar, key)] += 1

        started = time.monotonic()
        insisting = [asyncio.create_task(insist()) for _ in range(CLIENTS)]
        served = 0
        while not all(task.done() for task in insisting):
            served += await ask(client, sidecar, KEYS["gold"]) == 200
        took = time.monotonic() - started
        await asyncio.gather(*insisting)
    assert set(refused) == {status}
    assert refused[status] <= immediate + 1 + a_second * took + CLIENTS
    assert served > 0
