"""Where the engine says that it cannot keep the order, the sidecar keeps it in front, and says so."""

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest

from justitia_api.config import KeyEntry, KeyTable, PoolConfig, SchedulingConfig, TenantConfig, TenantLimits, key_digest
from justitia_channel.messages import VERSION, About, Hello
from justitia_channel.wire import encode
from justitia_scheduling.core.handover import LEAST
from justitia_sidecar.admission.inside import Inside
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.policies import CostModelName, PolicyName
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.sidecar_client import BODY, GOLD, KEY, PEPPER, Client, assert_nothing_left, engine_answers, pool

WHY = "vLLM 99.0 is none of the versions that the plug-in is made for: 0.32"


def inside(policy: PolicyName = PolicyName.VTC, generation: int = 1) -> PoolConfig:
    scheduling = SchedulingConfig(policy=policy, cost_model=CostModelName.WEIGHTED_TOKENS, enforcement="Engine")
    return pool(generation, scheduling=scheduling)


def hello(sidecar: Sidecar, instance: str, unsupported: str | None) -> None:
    """As the engine's process `instance` would send it."""
    assert sidecar.parts.order.engine_channel is not None
    sidecar.parts.order.engine_channel.receive(encode(Hello(VERSION, instance, About("99.0", unsupported=unsupported))))


def condition(sidecar: Sidecar) -> tuple[str, str]:
    (told,) = sidecar.report.conditions()
    return told.status, told.reason


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with MisbehavingEngine().serving() as engine:
        yield engine


@pytest.fixture
async def sidecar(engine: MisbehavingEngine) -> AsyncIterator[Sidecar]:
    async with EngineClient.session() as session:
        sidecar = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), time.monotonic, EngineChannel())
        entry = KeyEntry(digest=key_digest(PEPPER, KEY), tenant=GOLD)
        sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER, keys=(entry,)))
        sidecar.parts.current.put_config(inside())
        await engine_answers(sidecar)
        yield sidecar


async def test_the_order_is_kept_in_front_and_the_condition_says_why(sidecar: Sidecar) -> None:
    hello(sidecar, "one", WHY)
    admission = sidecar.parts.current.configured().admission
    assert type(admission.policy).__name__ == "VTC"
    assert admission.engine.ready
    assert admission.policy.capacity == admission.engine.kv_tokens
    sidecar.tick()
    assert condition(sidecar) == ("False", "EngineNotSupported")
    client = await Client(sidecar).run()
    assert client.status == 200
    assert admission.service[GOLD] > 0
    assert_nothing_left(sidecar)
    several = await Client(sidecar, body=json.dumps(BODY | {"n": 2}).encode()).run()
    assert several.status == 400


async def test_few_requests_wait_in_an_engine_that_keeps_no_order(sidecar: Sidecar, engine: MisbehavingEngine) -> None:
    hello(sidecar, "one", WHY)
    engine.behaviour = Misbehaviour.SILENT
    clients = [Client(sidecar) for _ in range(LEAST + 3)]
    requests = [asyncio.create_task(client.run()) for client in clients]
    await engine.silent.wait()
    async with asyncio.timeout(60):
        while sidecar.parts.current.configured().admission.books.queued != 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
    engine.go_on.set()
    await asyncio.gather(*requests)
    assert {client.status for client in clients} == {200}


async def test_weights_changed_later_are_kept_in_front_too(sidecar: Sidecar) -> None:
    hello(sidecar, "one", WHY)
    changed = inside(PolicyName.JUSTITIA, 2)
    sidecar.parts.current.put_config(changed.model_copy(update={"tenants": (TenantConfig(name="gold", weight=3),)}))
    policy = sidecar.parts.current.configured().admission.policy
    assert type(policy).__name__ == "Justitia"
    assert policy.weight(GOLD) == 3
    assert (await Client(sidecar).run()).status == 200


@pytest.mark.parametrize("policy", [PolicyName.UNIBOOST, PolicyName.SRPT, PolicyName.SJF])
async def test_a_policy_that_only_the_engine_can_keep_is_served_as_requests_arrive(
    sidecar: Sidecar, policy: PolicyName
) -> None:
    hello(sidecar, "one", WHY)
    sidecar.parts.current.put_config(inside(policy, 2))
    assert type(sidecar.parts.current.configured().admission.policy).__name__ == "FCFS"
    assert (await Client(sidecar).run()).status == 200


async def test_what_is_said_before_there_is_a_configuration_holds(engine: MisbehavingEngine) -> None:
    async with EngineClient.session() as session:
        sidecar = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), time.monotonic, EngineChannel())
        hello(sidecar, "one", WHY)
        sidecar.parts.current.put_config(inside())
        assert sidecar.parts.current.in_effect is not None
        assert not isinstance(sidecar.parts.current.in_effect.admission, Inside)
        assert condition(sidecar) == ("False", "EngineNotSupported")


async def test_a_connection_anew_changes_nothing_and_an_engine_that_keeps_the_order_gets_it_back(
    sidecar: Sidecar,
) -> None:
    hello(sidecar, "one", WHY)
    admission = sidecar.parts.current.configured().admission
    hello(sidecar, "one", WHY)
    assert sidecar.parts.current.configured().admission is admission
    hello(sidecar, "two", None)
    assert isinstance(sidecar.parts.current.configured().admission, Inside)
    assert condition(sidecar)[1] != "EngineNotSupported"
    assert (await Client(sidecar).run()).status == 200


async def test_what_is_open_when_it_is_said_ends_well_and_what_waits_is_refused(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    """The sidecar was started again beside an engine that serves."""
    one_at_a_time = TenantConfig(name="gold", weight=1, limits=TenantLimits(running_requests=1))
    sidecar.parts.current.put_config(inside(generation=2).model_copy(update={"tenants": (one_at_a_time,)}))
    engine.behaviour = Misbehaviour.SILENT
    open_before, waiting = Client(sidecar), Client(sidecar)
    first = asyncio.create_task(open_before.run())
    await engine.silent.wait()
    second = asyncio.create_task(waiting.run())
    async with asyncio.timeout(60):
        while len(sidecar.parts.open.waits) != 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
    before = sidecar.parts.current.configured().admission
    hello(sidecar, "one", WHY)
    await second
    assert (waiting.status, waiting.code) == (503, "engine_unavailable")
    engine.go_on.set()
    await first
    assert open_before.status == 200
    assert not before.books.requests
