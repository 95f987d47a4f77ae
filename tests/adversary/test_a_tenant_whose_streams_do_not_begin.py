"""Streams without a first token, for a slow grammar or media, hold up their tenant and nobody else."""

import asyncio
from pathlib import Path

import aiohttp

from justitia_scheduling.core.handover import LEAST
from support.asking import ask
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.serving import KEYS, eventually, running_sidecar

SLOW = 20
GIVEN = LEAST
"""So many wait in the engine: nothing has begun, so that the window is at its smallest."""


async def test_others_are_served_beside_streams_that_do_not_begin(tmp_path: Path) -> None:
    async with MisbehavingEngine().serving() as engine, aiohttp.ClientSession() as client:
        engine.behaviour = Misbehaviour.SILENT
        starting = running_sidecar(tmp_path / "sidecar", engine.url)
        sidecar = await asyncio.to_thread(starting.__enter__)
        try:
            slow = [asyncio.create_task(ask(client, sidecar, KEYS["silver"])) for _ in range(SLOW)]
            await asyncio.to_thread(eventually, "the engine has some", lambda: engine.open == GIVEN)
            engine.behaviour = Misbehaviour.NONE
            for _ in range(5):
                assert await ask(client, sidecar, KEYS["gold"]) == 200
            waiting = await asyncio.to_thread(sidecar.queue)
            assert [row["reason"] for row in waiting] == ["TenantNotBegun"] * (SLOW - GIVEN)
            assert engine.open == GIVEN
            engine.go_on.set()
            assert await asyncio.gather(*slow) == [200] * SLOW
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)
