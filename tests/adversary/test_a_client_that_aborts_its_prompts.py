"""A client that aborts each prompt before its first token pays for what the engine has read of it."""

import asyncio
import re
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.serving import KEYS, RunningSidecar, at_rest, eventually, running_sidecar

PROMPT = "word " * 12_000
PROMPTS = 5


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    """It takes every request and shows nothing of its answer."""
    async with MisbehavingEngine().serving() as engine:
        engine.behaviour = Misbehaviour.SILENT
        yield engine


@pytest.fixture
async def sidecar(tmp_path: Path, engine: MisbehavingEngine) -> AsyncIterator[RunningSidecar]:
    starting = running_sidecar(tmp_path / "sidecar", engine.url)
    yield await asyncio.to_thread(starting.__enter__)
    await asyncio.to_thread(starting.__exit__, None, None, None)


def limit(sidecar: RunningSidecar, tokens_per_minute: int) -> None:
    limits = {"tokensPerMinute": tokens_per_minute}
    tenants = [{"name": "gold", "weight": 4}, {"name": "silver", "weight": 1, "limits": limits}]
    sidecar.reconfigure(tenants=tenants)


async def ask(client: aiohttp.ClientSession, sidecar: RunningSidecar, *, stream: bool = True) -> tuple[int, str]:
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 2, "stream": stream}
    headers = {"authorization": f"Bearer {KEYS['silver']}"}
    async with client.post(f"{sidecar.public}/v1/completions", json=body, headers=headers) as answer:
        return answer.status, (await answer.json())["error"]["code"]


async def abort(
    client: aiohttp.ClientSession, sidecar: RunningSidecar, engine: MisbehavingEngine, *, stream: bool
) -> None:
    """Once the engine has the prompt. Returns when the sidecar has counted it."""
    engine.silent.clear()
    asking = asyncio.create_task(ask(client, sidecar, stream=stream))
    await engine.silent.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await asyncio.to_thread(eventually, "the request is over", lambda: at_rest(sidecar))


@pytest.mark.parametrize("cost_model", ["EngineTime", "KVTokenTime", "WeightedTokens"])
@pytest.mark.parametrize("stream", [True, False])
async def test_each_aborted_prompt_is_charged(
    engine: MisbehavingEngine, sidecar: RunningSidecar, cost_model: str, stream: bool
) -> None:
    await asyncio.to_thread(sidecar.reconfigure, scheduling={"policy": "FCFS", "costModel": cost_model})
    charged = [0.0]
    async with aiohttp.ClientSession() as client:
        for _ in range(PROMPTS):
            await abort(client, sidecar, engine, stream=stream)
            charged.append((await asyncio.to_thread(sidecar.tenant, "silver"))["service"])
    assert all(before < after for before, after in pairwise(charged)), charged


@pytest.mark.parametrize("stream", [True, False])
async def test_aborted_prompts_count_in_the_tokens_per_minute(
    engine: MisbehavingEngine, sidecar: RunningSidecar, stream: bool
) -> None:
    await asyncio.to_thread(limit, sidecar, 1)
    async with aiohttp.ClientSession() as client:
        await abort(client, sidecar, engine, stream=stream)
        assert await ask(client, sidecar) == (429, "rate_limited")


@pytest.mark.parametrize("stream", [True, False])
async def test_they_count_where_the_order_is_the_engine_s_and_its_scheduler_is_not_there(
    tmp_path: Path, engine: MisbehavingEngine, stream: bool
) -> None:
    """Nobody says then what the engine did."""
    starting = running_sidecar(tmp_path / "sidecar", engine.url, engine_socket=tmp_path / "engine.sock")
    sidecar = await asyncio.to_thread(starting.__enter__)
    try:
        await asyncio.to_thread(limit, sidecar, 1)
        async with aiohttp.ClientSession() as client:
            await abort(client, sidecar, engine, stream=stream)
            assert await ask(client, sidecar) == (429, "rate_limited")
        metrics = await asyncio.to_thread(sidecar.metrics)
        counted = {
            name: float(v) for name, v in re.findall(r"^justitia_(\w+)_total\{.*silver.*\} (\S+)$", metrics, re.M)
        }
        assert counted["prompt_tokens"] > 0
        assert counted["estimated_output_tokens"] == counted["output_tokens"] > 0
    finally:
        await asyncio.to_thread(starting.__exit__, None, None, None)


async def test_tokens_per_minute_see_what_is_under_way(engine: MisbehavingEngine, sidecar: RunningSidecar) -> None:
    await asyncio.to_thread(limit, sidecar, 1_000)
    async with aiohttp.ClientSession() as client:
        under_way = asyncio.create_task(ask(client, sidecar))
        await engine.silent.wait()
        assert await ask(client, sidecar) == (429, "rate_limited")
        under_way.cancel()
        await asyncio.gather(under_way, return_exceptions=True)
