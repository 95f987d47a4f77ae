"""A tenant that fills the pool's queue takes no place from one that holds less than its due."""

import asyncio
from pathlib import Path

import aiohttp

from justitia_scheduling.core.handover import LEAST
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.serving import KEYS, RunningSidecar, eventually, running_sidecar

BOUND, LIGHT = 100, 26
SENT = LEAST  # of the flood, which the engine has and does not begin


def connections() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


async def test_a_light_tenant_gets_into_a_full_queue(tmp_path: Path) -> None:
    async with MisbehavingEngine().serving() as engine, connections() as client:
        engine.behaviour = Misbehaviour.SILENT
        starting = running_sidecar(tmp_path / "sidecar", engine.url)
        sidecar = await asyncio.to_thread(starting.__enter__)
        try:
            await attack(sidecar, client)
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


async def attack(sidecar: RunningSidecar, client: aiohttp.ClientSession) -> None:
    async def ask(tenant: str) -> tuple[int, str, str | None]:
        body = {"model": "tiny", "prompt": [1, 2, 3], "max_tokens": 2, "stream": True}
        headers = {"authorization": f"Bearer {KEYS[tenant]}"}
        async with client.post(f"{sidecar.public}/v1/completions", json=body, headers=headers) as answer:
            return answer.status, (await answer.json())["error"]["code"], answer.headers.get("retry-after")

    def queued(tenant: str, wanted: int) -> bool:
        return bool(sidecar.tenant(tenant)["queued"] == wanted)

    flood = [asyncio.create_task(ask("silver")) for _ in range(BOUND + SENT)]
    await asyncio.to_thread(eventually, "the queue is full", lambda: queued("silver", BOUND))
    light = [asyncio.create_task(ask("gold")) for _ in range(LIGHT)]
    try:
        await asyncio.to_thread(eventually, "every light request waits", lambda: queued("gold", LIGHT))
        await asyncio.to_thread(eventually, "the flood gives way", lambda: queued("silver", BOUND - LIGHT))
        assert not any(task.done() for task in light)
        over = [task.result() for task in flood if task.done()]
        assert over == [(429, "queue_full", "5")] * LIGHT
        assert await ask("silver") == (429, "queue_full", "5")
    finally:
        for task in [*flood, *light]:
            task.cancel()
        await asyncio.gather(*flood, *light, return_exceptions=True)
