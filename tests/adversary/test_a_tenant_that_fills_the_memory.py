"""A tenant that makes a sidecar hold as many bytes as it can takes no room from one that holds less than its due.

In the test's own process: a real one has a part of the container's memory for this, which a test cannot fill.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from justitia_api.config import ApplicationConfig, KeyEntry, KeyTable, TenantConfig, key_digest
from justitia_scheduling.core.handover import LEAST
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.units import TenantId
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.sidecar_client import BODY, PEPPER, Client, engine_answers, pool

KIB = 2**10
CAPACITY, LARGE = 512 * KIB, 60 * KIB
KEYS = {"light": b"sk-light-0123456789abcdef", "heavy": b"sk-heavy-0123456789abcdef"}
LIGHT, HEAVY = TenantId("light"), TenantId("heavy")
AT_MOST = 8
"""Bodies that fit."""


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    """It takes what it is given and begins with nothing, so all else waits."""
    async with MisbehavingEngine().serving() as engine:
        engine.behaviour = Misbehaviour.SILENT
        yield engine


@pytest.fixture
async def sidecar(engine: MisbehavingEngine) -> AsyncIterator[Sidecar]:
    async with EngineClient.session() as session:
        sidecar = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), time.monotonic)
        sidecar.parts.held.capacity = CAPACITY
        entries = tuple(KeyEntry(digest=key_digest(PEPPER, key), tenant=tenant) for tenant, key in KEYS.items())
        sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER, keys=entries))
        applications = tuple(ApplicationConfig(namespace="ns", name=name, tenant=name) for name in KEYS)
        tenants = tuple(TenantConfig(name=name, weight=1) for name in KEYS)
        sidecar.parts.current.put_config(pool(applications=applications, tenants=tenants))
        await engine_answers(sidecar)
        yield sidecar


class Requests:
    """Those that were sent, each with its task."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._tasks: list[asyncio.Task[Client]] = []

    def send(self, tenant: TenantId, count: int, size: int = LARGE) -> list[Client]:
        body = json.dumps(BODY | {"user": "x" * size}).encode()
        headers = {b"authorization": b"Bearer " + KEYS[tenant]}
        clients = [Client(self._sidecar, body, headers) for _ in range(count)]
        self._tasks += [asyncio.create_task(client.run()) for client in clients]
        return clients

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()


@pytest.fixture
def requests(sidecar: Sidecar) -> Iterator[Requests]:
    requests = Requests(sidecar)
    yield requests
    requests.end()


def refused(clients: list[Client]) -> list[Client]:
    return [client for client in clients if client.sent and client.status == 429]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_bodies_of_a_flood_give_way_to_those_of_a_tenant_within_its_due(
    sidecar: Sidecar, engine: MisbehavingEngine, requests: Requests
) -> None:
    requests.send(HEAVY, LEAST, size=1)
    await until(lambda: len(engine.received) == LEAST)
    flood = requests.send(HEAVY, 2 * AT_MOST)
    await until(lambda: len(refused(flood)) == AT_MOST)
    assert sidecar.parts.held.held(HEAVY) > CAPACITY - LARGE

    light = requests.send(LIGHT, 3)
    await until(lambda: sidecar.parts.current.configured().admission.books.load[LIGHT].queued == 3)
    await until(lambda: len(refused(flood)) == AT_MOST + 3)
    assert not any(client.sent for client in light)
    assert refused(flood)[-1].code == "queue_full"
    assert sidecar.parts.held.total <= CAPACITY


async def test_a_body_is_let_go_of_once_the_engine_has_it(
    sidecar: Sidecar, engine: MisbehavingEngine, requests: Requests
) -> None:
    requests.send(HEAVY, LEAST - 1, size=1)
    await until(lambda: len(engine.received) == LEAST - 1)
    requests.send(HEAVY, 2)
    await until(lambda: len(engine.received) == LEAST and sidecar.parts.open.count == LEAST + 1)
    await until(lambda: 0 < sidecar.parts.held.total < 2 * LARGE)
    assert json.loads(engine.received[-1][1])["user"] == "x" * LARGE


async def test_a_body_of_unknown_size_counts_as_the_largest_until_it_is_whole(sidecar: Sidecar) -> None:
    most = sidecar.parts.current.configured().config.queue.maximum_body_bytes
    client = Client(sidecar, b"{}", {b"authorization": b"Bearer " + KEYS["light"]}, chunked=True)
    await client.run()
    assert most > CAPACITY
    assert (client.status, client.code) == (429, "queue_full")
    assert not client.read_bytes


async def test_a_full_queue_is_told_before_a_body_is_read(sidecar: Sidecar, requests: Requests) -> None:
    config = sidecar.parts.current.configured().config
    queue = config.queue.model_copy(update={"maximum_requests": 1})
    sidecar.parts.current.put_config(config.model_copy(update={"generation": 2, "queue": queue}))
    requests.send(HEAVY, LEAST + 1, size=1)
    await until(lambda: sidecar.parts.current.configured().admission.books.queued == 1)
    (late,) = requests.send(HEAVY, 1)
    await until(lambda: late.sent)
    assert (late.status, late.code) == (429, "queue_full")
    assert not late.read_bytes
