"""The request path against an engine that misbehaves, and clients that go away. Real sockets to the engine."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from justitia_api.config import (
    QueueConfig,
    TenantConfig,
    TenantLimits,
)
from justitia_sidecar.engine.client import EngineClient, EngineError
from justitia_sidecar.engine.view import EngineView
from justitia_sidecar.identity.salt import cache_salt, salted
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.request import usage
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.units import TenantId
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.sidecar_client import BODY, GOLD, Client, assert_nothing_left, engine_answers, give_key, pool


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with MisbehavingEngine().serving() as engine:
        yield engine


@pytest.fixture
async def sidecar(engine: MisbehavingEngine) -> AsyncIterator[Sidecar]:
    async with EngineClient.session() as session:
        sidecar = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), time.monotonic)
        give_key(sidecar)
        sidecar.parts.current.put_config(pool())
        await engine_answers(sidecar)
        yield sidecar


def charged(sidecar: Sidecar) -> float:
    return sidecar.parts.current.configured().admission.policy.service[GOLD]


async def test_a_good_engines_stream_ends_with_done_and_is_charged(sidecar: Sidecar) -> None:
    client = await Client(sidecar).run()
    assert client.status == 200
    assert client.answer.endswith(b"data: [DONE]\n\n")
    assert b"usage" not in client.answer
    assert charged(sidecar) == 3 + 2 * 2
    assert_nothing_left(sidecar)


@pytest.mark.parametrize(
    "behaviour", [Misbehaviour.DIES_MID_STREAM, Misbehaviour.ENDS_WITHOUT_DONE, Misbehaviour.ENDLESS_EVENT]
)
async def test_a_stream_that_breaks_ends_with_an_error_event_and_charges_what_came(
    sidecar: Sidecar, engine: MisbehavingEngine, behaviour: Misbehaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "MAXIMUM_EVENT_BYTES", 1000)
    engine.behaviour = behaviour
    client = await Client(sidecar).run()
    assert client.status == 200
    last = client.answer.strip().split(b"\n\n")[-1]
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "engine_unavailable"
    assert b"[DONE]" not in client.answer
    assert charged(sidecar) == 3 + 2 * 1
    assert len(engine.received) == 1
    assert_nothing_left(sidecar)


async def test_garbage_is_forwarded_and_does_not_disturb_the_count(sidecar: Sidecar, engine: MisbehavingEngine) -> None:
    engine.behaviour = Misbehaviour.GARBAGE
    client = await Client(sidecar).run()
    assert b"data: {not json\n\n: comment\n\n\xff\xfe\n\n" in client.answer
    assert charged(sidecar) == 3 + 2 * 2


async def test_an_engine_that_dies_before_it_answers_gives_503_and_holds_the_queue(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    engine.behaviour = Misbehaviour.DIES_BEFORE_ANSWER
    client = await Client(sidecar).run()
    assert (client.status, client.code) == (503, "engine_unavailable")
    assert dict(client.sent[0]["headers"])[b"retry-after"]
    assert not sidecar.parts.current.configured().admission.engine.ready
    assert len(engine.received) == 1
    assert_nothing_left(sidecar)


async def test_a_broken_connection_holds_new_requests_and_does_not_refuse_them(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    engine.behaviour = Misbehaviour.DIES_BEFORE_ANSWER
    assert (await Client(sidecar).run()).status == 503
    engine.behaviour = Misbehaviour.NONE
    held = Client(sidecar)
    coming = asyncio.create_task(held.run())
    async with asyncio.timeout(60):
        while not sidecar.parts.open.waits:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await sidecar.parts.watch.look(sidecar.parts.current.configured().admission)
    await coming
    assert held.status == 200
    assert_nothing_left(sidecar)


async def test_an_engine_that_does_not_answer_the_next_probe_either_refuses_new_requests(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    """Negative control: what is confirmed is no longer doubted."""
    engine.behaviour = Misbehaviour.DIES_BEFORE_ANSWER
    await Client(sidecar).run()
    engine.metrics = b""
    await sidecar.parts.watch.look(sidecar.parts.current.configured().admission)
    assert (await Client(sidecar).run()).code == "engine_unavailable"
    assert len(engine.received) == 1


@pytest.mark.parametrize("answers", [True, False])
async def test_an_engine_that_answers_requests_is_there_however_slow_its_probes_are(
    sidecar: Sidecar, engine: MisbehavingEngine, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = sidecar.parts.current.configured().admission

    async def slow(view: EngineView) -> EngineView:
        sidecar.parts.watch.heard += answers
        raise EngineError("no answer in time")

    monkeypatch.setattr(sidecar.parts.engine, "probe", slow)
    for _ in range(5):
        await sidecar.parts.watch.look(admission)
    assert admission.engine.ready is answers
    assert (await Client(sidecar).run()).status == (200 if answers else 503)


async def test_the_engines_own_refusal_is_passed_on(sidecar: Sidecar, engine: MisbehavingEngine) -> None:
    engine.behaviour = Misbehaviour.REFUSES
    client = await Client(sidecar).run()
    assert client.status == 400
    assert json.loads(client.answer) == {"error": {"message": "no", "code": 400}}
    assert_nothing_left(sidecar)


async def test_a_client_that_leaves_a_hanging_engine_closes_the_connection_to_it(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    engine.behaviour = Misbehaviour.HANGS
    client = Client(sidecar)
    request = asyncio.create_task(client.run())
    await client.first_chunk.wait()
    assert engine.open == 1
    client.gone.set()
    await request
    async with asyncio.timeout(60):
        await engine.closed.wait()
    assert engine.open == 0
    assert charged(sidecar) == 3 + 2 * 1
    assert_nothing_left(sidecar)


async def test_what_a_client_sends_never_reaches_the_engine_as_order(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    spoof = {b"x-vllm-priority": b"-5", b"x-request-id": b"mine", b"x-session-id": b"s", b"cookie": b"c"}
    await Client(sidecar, headers=spoof).run()
    await Client(sidecar).run()
    first, second = (headers for headers, _ in engine.received)
    assert first["x-vllm-priority"] == second["x-vllm-priority"], "the engine had nothing both times"
    assert first["x-request-id"] != "mine"
    for name in ("x-session-id", "cookie", "authorization"):
        assert name not in first


async def test_the_body_reaches_the_engine_byte_for_byte(sidecar: Sidecar, engine: MisbehavingEngine) -> None:
    body = b'{ "stream":true,\n "model" : "m", "prompt":"\\u00e9", "priority": -9, "unknown": [1.50] }'
    await Client(sidecar, body=body).run()
    assert engine.received[0][1] == salted(body, cache_salt(GOLD, None))


@pytest.mark.parametrize("name", ["cache_salt", "cache\\u005fsalt"])
@pytest.mark.parametrize("value", [f'"{cache_salt(TenantId("silver"), None)}"', '""', "null", "7"])
async def test_the_salt_is_the_tenants_whatever_the_client_sends(
    sidecar: Sidecar, engine: MisbehavingEngine, name: str, value: str
) -> None:
    await Client(sidecar, body=json.dumps(BODY).encode()[:-1] + f',"{name}":{value}}}\n'.encode()).run()
    assert json.loads(engine.received[0][1]) == BODY | {"cache_salt": cache_salt(GOLD, None)}


async def test_the_salt_follows_the_group_that_the_configuration_declares(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    await Client(sidecar).run()
    sidecar.parts.current.put_config(pool(2, tenants=(TenantConfig(name="gold", weight=1, prefix_group="metals"),)))
    await Client(sidecar).run()
    sidecar.parts.current.put_config(pool(3))
    await Client(sidecar).run()
    salts = [json.loads(body)["cache_salt"] for _, body in engine.received]
    own, groups = cache_salt(GOLD, None), cache_salt(GOLD, "metals")
    assert salts == [own, groups, own]


ONE_AT_A_TIME = (TenantConfig(name="gold", weight=1, limits=TenantLimits(running_requests=1)),)


async def test_a_request_that_waits_too_long_is_refused(sidecar: Sidecar, engine: MisbehavingEngine) -> None:
    sidecar.parts.current.put_config(pool(2, queue=QueueConfig(timeout_seconds=0.05), tenants=ONE_AT_A_TIME))
    engine.behaviour = Misbehaviour.HANGS
    hog = Client(sidecar)
    running = asyncio.create_task(hog.run())
    await hog.first_chunk.wait()
    waiting = await Client(sidecar).run()
    assert (waiting.status, waiting.code) == (503, "queue_timeout")
    hog.gone.set()
    await running
    assert_nothing_left(sidecar)


async def test_draining_refuses_what_waits_and_what_is_new(sidecar: Sidecar, engine: MisbehavingEngine) -> None:
    sidecar.parts.current.put_config(pool(2, tenants=ONE_AT_A_TIME))
    engine.behaviour = Misbehaviour.HANGS
    hog, waiting = Client(sidecar), Client(sidecar)
    running = asyncio.create_task(hog.run())
    await hog.first_chunk.wait()
    queued = asyncio.create_task(waiting.run())
    async with asyncio.timeout(60):
        while not sidecar.parts.open.waits:  # noqa: ASYNC110
            await asyncio.sleep(0)
    drained = asyncio.create_task(sidecar.parts.open.drain())
    await queued
    assert (waiting.status, waiting.code) == (503, "draining")
    assert (await Client(sidecar).run()).code == "draining"
    assert not drained.done()
    hog.gone.set()
    await running
    await drained


async def test_a_tenant_over_its_tokens_per_minute_is_told_when_to_come_back(sidecar: Sidecar) -> None:
    limits = TenantLimits(tokens_per_minute=5)
    sidecar.parts.current.put_config(pool(2, tenants=(TenantConfig(name="gold", weight=1, limits=limits),)))
    assert (await Client(sidecar).run()).status == 200
    refused = await Client(sidecar).run()
    assert (refused.status, refused.code) == (429, "rate_limited")
    assert int(dict(refused.sent[0]["headers"])[b"retry-after"]) >= 1


async def test_a_body_that_grows_too_large_is_refused_whatever_its_header_says(sidecar: Sidecar) -> None:
    client = await Client(sidecar, body=b"x" * (4 * 2**20 + 1), headers={b"content-length": b"10"}).run()
    assert (client.status, client.code) == (413, "body_too_large")


async def test_an_older_configuration_is_ignored(sidecar: Sidecar) -> None:
    sidecar.parts.current.put_config(pool(5, model="new"))
    sidecar.parts.current.put_config(pool(4, model="old"))
    assert sidecar.parts.current.configured().config.model == "new"


async def test_without_configuration_requests_are_refused(engine: MisbehavingEngine) -> None:
    async with EngineClient.session() as session:
        client = await Client(Sidecar(EngineClient(engine.url, session), SidecarMetrics(), time.monotonic)).run()
    assert (client.status, client.code) == (503, "not_configured")
