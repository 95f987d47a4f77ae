"""Requests that wait inside the engine: their head, their timeout, draining, and their accounts."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from justitia_api.config import KeyEntry, KeyTable, QueueConfig, key_digest
from justitia_channel import messages as channel
from justitia_channel.messages import PlugInSnapshot
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.identity.salt import cache_salt
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.service import Sidecar
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.sidecar_client import BODY, GOLD, KEY, PEPPER, Client, assert_nothing_left, engine_answers, pool


class Connected(EngineChannel):
    """Its engine is there."""

    @property
    def connected(self) -> bool:
        return True


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with MisbehavingEngine().serving() as engine:
        engine.behaviour = Misbehaviour.SILENT
        yield engine


@pytest.fixture
async def sidecar(engine: MisbehavingEngine) -> AsyncIterator[Sidecar]:
    async with EngineClient.session() as session:
        sidecar = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), time.monotonic, Connected())
        entry = KeyEntry(digest=key_digest(PEPPER, KEY), tenant=GOLD)
        sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER, keys=(entry,)))
        sidecar.parts.current.put_config(pool())
        await engine_answers(sidecar)
        yield sidecar


def hear(sidecar: Sidecar, message: channel.Admitted | channel.Closed) -> None:
    assert sidecar.parts.order.channel is not None
    sidecar.parts.order.channel.hear(message)


def key_of(engine: MisbehavingEngine) -> str:
    return engine.received[-1][0]["x-request-id"]


def output_tokens(sidecar: Sidecar) -> float:
    return (
        sidecar.parts.metrics.registry.get_sample_value(
            "justitia_output_tokens_total", {"tenant": "gold", "application": "ns/a"}
        )
        or 0.0
    )


async def test_no_head_is_sent_before_the_engine_has_begun(sidecar: Sidecar, engine: MisbehavingEngine) -> None:
    client = Client(sidecar)
    request = asyncio.create_task(client.run())
    await engine.silent.wait()
    assert client.sent == []
    engine.go_on.set()
    await request
    assert client.status == 200
    assert client.answer.endswith(b"data: [DONE]\n\n")
    assert_nothing_left(sidecar)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_request_that_waits_too_long_inside_is_refused_and_taken_back(
    sidecar: Sidecar, engine: MisbehavingEngine, stream: bool
) -> None:
    sidecar.parts.current.put_config(pool(2, queue=QueueConfig(timeout_seconds=0.05)))
    client = await Client(sidecar, body=json.dumps(BODY | {"stream": stream}).encode()).run()
    assert (client.status, client.code) == (503, "queue_timeout")
    async with asyncio.timeout(60):
        await engine.closed.wait()
    assert engine.open == 0
    assert_nothing_left(sidecar)


async def test_what_waits_inside_has_its_tenants_salt_too(sidecar: Sidecar, engine: MisbehavingEngine) -> None:
    engine.go_on.set()
    await Client(sidecar, body=json.dumps(BODY | {"cache_salt": "mine"}).encode()).run()
    assert json.loads(engine.received[0][1]) == BODY | {"cache_salt": cache_salt(GOLD, None)}


async def test_a_request_that_has_begun_takes_its_time(sidecar: Sidecar, engine: MisbehavingEngine) -> None:
    sidecar.parts.current.put_config(pool(2, queue=QueueConfig(timeout_seconds=0.2)))
    begun, waiting = Client(sidecar), Client(sidecar)
    request = asyncio.create_task(begun.run())
    await engine.silent.wait()
    hear(sidecar, channel.Admitted(key_of(engine), 0))
    assert (await waiting.run()).code == "queue_timeout"
    engine.go_on.set()
    await request
    assert begun.status == 200
    assert_nothing_left(sidecar)


async def test_where_the_engine_does_not_say_when_it_begins_nobody_is_refused_for_waiting(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    sidecar.parts.current.put_config(pool(2, queue=QueueConfig(timeout_seconds=0.05)))
    assert sidecar.parts.order.channel is not None
    sidecar.parts.order.channel.state = PlugInSnapshot(failures=1)
    unseen, waiting = Client(sidecar), Client(sidecar)
    request = asyncio.create_task(unseen.run())
    await engine.silent.wait()
    sidecar.parts.order.channel.state = PlugInSnapshot()
    sidecar.parts.order.channel.gaps += 1
    assert (await waiting.run()).code == "queue_timeout"
    engine.go_on.set()
    await request
    assert unseen.status == 200


async def test_draining_refuses_what_waits_inside_and_finishes_what_has_begun(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    begun, waiting = Client(sidecar), Client(sidecar)
    first = asyncio.create_task(begun.run())
    await engine.silent.wait()
    hear(sidecar, channel.Admitted(key_of(engine), 0))
    second = asyncio.create_task(waiting.run())
    async with asyncio.timeout(60):
        while len(engine.received) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    drained = asyncio.create_task(sidecar.parts.open.drain())
    await second
    assert (waiting.status, waiting.code) == (503, "draining")
    assert not drained.done()
    engine.go_on.set()
    await first
    await drained
    assert begun.status == 200


async def test_a_client_that_leaves_before_its_answer_is_metered_when_the_engine_has_said_all(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    client = Client(sidecar, body=json.dumps(BODY | {"stream": False, "n": 2}).encode())
    request = asyncio.create_task(client.run())
    await engine.silent.wait()
    hear(sidecar, channel.Admitted(key_of(engine), 0))
    client.gone.set()
    await request
    assert output_tokens(sidecar) == 0
    hear(sidecar, channel.Closed(key_of(engine), 0, False, 3, 0, 40, 0, 83.0))
    hear(sidecar, channel.Closed(key_of(engine), 1, False, 3, 3, 30, 0, 60.0))
    assert output_tokens(sidecar) == 70
    assert_nothing_left(sidecar)


async def test_an_engine_that_dies_before_its_first_bytes_gives_503(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    engine.behaviour = Misbehaviour.DIES_BEFORE_FIRST_BYTES
    client = await Client(sidecar).run()
    assert (client.status, client.code) == (503, "engine_unavailable")
    assert_nothing_left(sidecar)
