"""The step time that a scrape shows is that of this engine, in whichever way the order is kept."""

import time
from collections.abc import AsyncIterator

import pytest

from justitia_api.config import KeyEntry, KeyTable, key_digest
from justitia_channel.messages import PlugInSnapshot
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.step_time import PRIOR
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.service import Sidecar
from support.sidecar_client import GOLD, KEY, PEPPER, pool


def sidecar_of(channel: EngineChannel | None, client: EngineClient) -> Sidecar:
    sidecar = Sidecar(client, SidecarMetrics(), time.monotonic, channel)
    entry = KeyEntry(digest=key_digest(PEPPER, KEY), tenant=GOLD)
    sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER, keys=(entry,)))
    sidecar.parts.current.put_config(pool())
    return sidecar


@pytest.fixture
async def client() -> AsyncIterator[EngineClient]:
    async with EngineClient.session() as session:
        yield EngineClient("http://127.0.0.1:1", session)


def shown(sidecar: Sidecar) -> list[float | None]:
    for _ in sidecar.report.set_gauges():
        pass
    registry = sidecar.parts.metrics.registry
    return [
        registry.get_sample_value("justitia_step_time_coefficient", {"per": per})
        for per in ("step", "token", "kv_token")
    ]


async def test_inside_the_engine_it_is_what_the_engine_tells(client: EngineClient) -> None:
    channel = EngineChannel()
    sidecar = sidecar_of(channel, client)
    channel.state = PlugInSnapshot(step_time=StepTime(0.5, 0.25, 0.125))
    assert shown(sidecar) == [0.5, 0.25, 0.125]


async def test_inside_the_engine_nothing_is_shown_before_it_tells(client: EngineClient) -> None:
    assert shown(sidecar_of(EngineChannel(), client)) == [None, None, None]


async def test_in_front_of_the_engine_it_is_the_sidecars_own_fit(client: EngineClient) -> None:
    assert shown(sidecar_of(None, client)) == [PRIOR.per_step, PRIOR.per_token, PRIOR.per_kv_token]
