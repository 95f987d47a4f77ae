"""What tenants are entitled to is told under policies that know weights, and not under others."""

import time
from collections.abc import AsyncIterator

import pytest

from justitia_api.config import KeyTable, SchedulingConfig
from justitia_sidecar.engine.client import Engine
from justitia_sidecar.metrics import Metrics
from justitia_sidecar.report.status import observe_status, set_gauges
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.policies import PolicyName
from support.sidecar_client import GOLD, PEPPER, pool


@pytest.fixture
async def sidecar() -> AsyncIterator[Sidecar]:
    async with Engine.session() as session:
        sidecar = Sidecar(Engine("http://127.0.0.1:1", session), Metrics(), time.monotonic)
        sidecar.put_keys(KeyTable(pepper=PEPPER))
        yield sidecar


def entitled(sidecar: Sidecar, policy: PolicyName, generation: int) -> tuple[float | None, float | None]:
    """In the status, and as a metric, while the tenant is active."""
    sidecar.put_config(pool(generation, scheduling=SchedulingConfig(policy=policy)))
    sidecar.shares.sample({GOLD: 1.0}, {GOLD: 1.0}, time.monotonic())
    list(set_gauges(sidecar))
    metric = sidecar.metrics.registry.get_sample_value("justitia_tenant_entitled_share", {"tenant": "gold"})
    return observe_status(sidecar).tenants[0].entitled_share, metric


async def test_a_policy_without_weights_entitles_nobody(sidecar: Sidecar) -> None:
    assert entitled(sidecar, PolicyName.VTC, 1) == (1.0, 1.0)
    assert entitled(sidecar, PolicyName.FCFS, 2) == (None, None)
    assert entitled(sidecar, PolicyName.TIERED_JUSTITIA, 3) == (1.0, 1.0)
