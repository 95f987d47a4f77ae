"""A paying tenant's requests, beside whom they are served, and the memory that the pool takes meanwhile.

The payer is compared with itself beside a polite neighbour that keeps the engine full: then it has its share, and what
adversaries add on top is harm. Payer and neighbour are weighted 2 : 1.
"""

import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil

from justitia_benchmarks.adversaries.requests import completion
from justitia_benchmarks.engine.servers import KEYS, Space, documents, engine_arguments, running_pool
from justitia_cli.local.launch import LocalModel
from justitia_cli.local.pool import LocalPool, Progress
from justitia_cli.runtime import EngineRuntime
from justitia_operator.world.objects import Json
from justitia_vocabulary.units import Seconds

PAYER, ADVERSARY = "silver", "bronze"
ARGUMENTS = engine_arguments(Space(blocks=257, block=32, longest=2048))
_PAYING_CLIENTS = 8
_THINK: Seconds = 0.25
_OUTPUT = 30
_NEIGHBOURS = 64
_NEIGHBOURS_OUTPUT = 60
_SAMPLE: Seconds = 1.0


@dataclass
class AttackPhase:
    """What the payer saw, in seconds for each request, and how many were refused. `memory`: resident MiB of the
    scheduler, sampled once a second; `answers`: what adversaries were told, how often.
    """

    name: str
    seconds: Seconds
    first_token: list[Seconds] = field(default_factory=list)
    completion: list[Seconds] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    answers: Mapping[str, int] = field(default_factory=dict)


@contextmanager
def attacked_pool(
    directory: Path, runtime: EngineRuntime, model: Path, enforcement: str, progress: Progress
) -> Iterator[LocalPool]:
    """A pool with the queue that users have by default."""
    resources = documents(enforcement, "TieredJustitia", {"paid": PAYER, "abuse": ADVERSARY})
    for each in resources:
        scheduling: Json = each.get("spec", {}).get("scheduling", {})
        scheduling.pop("queue", None)
    with running_pool(
        resources, directory, runtime, LocalModel(str(model), True), progress, arguments=ARGUMENTS
    ) as running:
        yield running.pool


async def beside_neighbour(pool: LocalPool, name: str, seconds: Seconds) -> AttackPhase:
    """The payer has its share, and the neighbour takes what is left."""
    phase = AttackPhase(name, seconds)
    async with _session(ADVERSARY) as session, asyncio.TaskGroup() as group:
        neighbours = [group.create_task(_polite(session, pool.base_url, number)) for number in range(_NEIGHBOURS)]
        await _pay(pool, phase)
        for each in neighbours:
            each.cancel()
    return phase


async def beside_adversaries(pool: LocalPool, name: str, seconds: Seconds) -> AttackPhase:
    """The neighbour's key is in the hands of adversaries, who have company without any. Raises RuntimeError if their
    process failed.
    """
    phase = AttackPhase(name, seconds)
    command = ["-m", "justitia_benchmarks.adversaries.attacks", pool.base_url, pool.admin_url, KEYS[ADVERSARY]]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, str(seconds), stdout=asyncio.subprocess.PIPE
    )
    try:
        await _pay(pool, phase)
        told, _ = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    if process.returncode:
        raise RuntimeError(f"the adversaries' process ended with {process.returncode}")
    phase.answers = json.loads(told)
    return phase


async def _pay(pool: LocalPool, phase: AttackPhase) -> None:
    """The payer's clients ask, wait for the answer, think, ask again."""
    until = time.monotonic() + phase.seconds
    sampler = asyncio.create_task(_watch_memory(pool, phase))
    async with _session(PAYER) as session, asyncio.TaskGroup() as group:
        for number in range(_PAYING_CLIENTS):
            group.create_task(_paying(session, pool.base_url, phase, number, until))
    sampler.cancel()


async def _paying(session: aiohttp.ClientSession, url: str, phase: AttackPhase, number: int, until: Seconds) -> None:
    draw = random.Random(f"{phase.name}/{number}")
    while time.monotonic() < until:
        body = completion(draw, output=_OUTPUT, stream=True)
        try:
            await _ask(session, url, body, phase)
        except aiohttp.ClientError as error:
            phase.failures.append(repr(error))
        await asyncio.sleep(draw.expovariate(1 / _THINK))


async def _ask(session: aiohttp.ClientSession, url: str, body: bytes, phase: AttackPhase) -> None:
    began, first, last = time.monotonic(), 0.0, b""
    async with session.post(f"{url}/v1/completions", data=body) as answer:
        async for line in answer.content:
            first = first or time.monotonic() - began
            last = line.strip() or last
    if answer.status != 200 or last != b"data: [DONE]":
        phase.failures.append(f"{answer.status}, ended with {last[:200]!r}")
        return
    phase.first_token.append(first)
    phase.completion.append(time.monotonic() - began)


async def _polite(session: aiohttp.ClientSession, url: str, number: int) -> None:
    draw = random.Random(number)
    while True:
        body = completion(draw, output=_NEIGHBOURS_OUTPUT, stream=True)
        with contextlib.suppress(aiohttp.ClientError):
            async with session.post(f"{url}/v1/completions", data=body) as answer:
                await answer.read()
                if answer.status != 200:
                    await asyncio.sleep(float(answer.headers.get("retry-after", "1")))


async def _watch_memory(pool: LocalPool, phase: AttackPhase) -> None:
    *_, scheduler = pool.pids
    process = psutil.Process(scheduler)
    while True:
        phase.memory.append(process.memory_info().rss / 2**20)
        await asyncio.sleep(_SAMPLE)


@asynccontextmanager
async def _session(tenant: str) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {KEYS[tenant]}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield session


def quantile(values: Sequence[float], q: float) -> float:
    """The value at rank q of n - 1, 0 without any."""
    ranked = sorted(values)
    return ranked[round(q * (len(ranked) - 1))] if ranked else 0.0


def growth(memory: Sequence[float]) -> float:
    """The largest of the last third divided by the largest of the middle one: 1 where memory is flat."""
    third = len(memory) // 3
    return max(memory[2 * third :]) / max(memory[third : 2 * third]) if third else 1.0
