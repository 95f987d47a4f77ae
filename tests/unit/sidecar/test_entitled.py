"""Entitled shares are reported under policies with weights, and not under others."""

import time
from collections.abc import AsyncIterator

import pytest

from justitia_api.config import KeyTable, SchedulingConfig
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.policies import PolicyName
from support.sidecar_client import GOLD, PEPPER, pool


@pytest.fixture
async def sidecar() -> AsyncIterator[Sidecar]:
    async with EngineClient.session() as session:
        sidecar = Sidecar(EngineClient("http://127.0.0.1:1", session), SidecarMetrics(), time.monotonic)
        sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER))
        yield sidecar


def entitled(sidecar: Sidecar, policy: PolicyName, generation: int) -> tuple[float | None, float | None]:
    """In the status, and as a metric, while the tenant is active."""
    sidecar.parts.current.put_config(pool(generation, scheduling=SchedulingConfig(policy=policy)))
    sidecar.report.shares.sample({GOLD: 1.0}, {GOLD: 1.0}, time.monotonic())
    list(sidecar.report.set_gauges())
    metric = sidecar.parts.metrics.registry.get_sample_value("justitia_tenant_entitled_share", {"tenant": "gold"})
    return sidecar.report.status().tenants[0].entitled_share, metric


async def test_a_policy_without_weights_entitles_nobody(sidecar: Sidecar) -> None:
    assert entitled(sidecar, PolicyName.VTC, 1) == (1.0, 1.0)
    assert entitled(sidecar, PolicyName.FCFS, 2) == (None, None)
    assert entitled(sidecar, PolicyName.TIERED_JUSTITIA, 3) == (1.0, 1.0)
