"""A tenant that floods the pool gets no request of another tenant refused that its share would serve in time."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.serving import KEYS, RunningSidecar, eventually, running_sidecar

FLOOD, FEW, MANY = 90, 14, 60
BOUND_MILLISECONDS = 100
"""Behind the flood, in order of arrival, first tokens would be expected after more than twice as much: requests of two
tokens at the pace that an engine is taken to have.
"""
OBJECTIVE = {"metric": "TimeToFirstToken", "percentile": 90, "boundMilliseconds": BOUND_MILLISECONDS}
APPLICATIONS: list[dict[str, Any]] = [
    {"namespace": "demo", "name": "chat", "tenant": "gold", "objectives": [OBJECTIVE], "beyondObjective": "Refuse"},
    {"namespace": "demo", "name": "summarise", "tenant": "silver"},
]


async def test_a_flood_gets_nobody_else_refused(tmp_path: Path) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with MisbehavingEngine().serving() as engine, aiohttp.ClientSession(connector=connector) as client:
        starting = running_sidecar(tmp_path / "sidecar", engine.url)
        sidecar = await asyncio.to_thread(starting.__enter__)
        try:
            scheduling = {"policy": "TieredJustitia", "costModel": "EngineTime"}
            await asyncio.to_thread(sidecar.reconfigure, scheduling=scheduling, applications=APPLICATIONS)
            await attack(sidecar, client, engine)
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


async def attack(sidecar: RunningSidecar, client: aiohttp.ClientSession, engine: MisbehavingEngine) -> None:
    async def ask(tenant: str, max_tokens: int = 2) -> tuple[int, str | None]:
        body = {"model": "tiny", "prompt": [1, 2, 3], "max_tokens": max_tokens, "stream": True}
        headers = {"authorization": f"Bearer {KEYS[tenant]}"}
        async with client.post(f"{sidecar.public}/v1/completions", json=body, headers=headers) as answer:
            refused = answer.status != 200
            return answer.status, (await answer.json())["error"]["code"] if refused else (await answer.text())[:0]

    def open_of(tenant: str) -> int:
        load = sidecar.tenant(tenant)
        return int(load["queued"] + load["running"])

    assert await ask("gold") == (200, ""), "the outputs of the application are known"
    engine.behaviour = Misbehaviour.SILENT
    flood = [asyncio.create_task(ask("silver", 800)) for _ in range(FLOOD)]
    try:
        await asyncio.to_thread(eventually, "the flood waits", lambda: open_of("silver") == FLOOD)
        few = [asyncio.create_task(ask("gold")) for _ in range(FEW)]
        flood += few
        await asyncio.to_thread(eventually, "what its share serves is taken", lambda: open_of("gold") == FEW)
        assert not any(task.done() for task in few)
        own = [asyncio.create_task(ask("gold")) for _ in range(MANY)]
        flood += own
        done, _ = await asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result() for task in done} == {(503, "beyond_objective")}, "the control: its own flood is"
    finally:
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
