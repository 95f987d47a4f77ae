"""In a pool of several engines all sidecars know all open runs. Whoever opens them without end loses its own."""

import pytest

from justitia_api.config import ApplicationConfig, PoolConfig, RunConfig, TenantConfig
from justitia_channel.messages import PlugInSnapshot
from justitia_sidecar.admission.inside import Inside
from justitia_sidecar.pool import sharing
from justitia_sidecar.pool.sharing import Sharing
from justitia_sidecar.pool.updates import Update, WriterId, decode, encode
from justitia_vocabulary.units import TenantId
from support.listening_channel import Listening

GOLD, FLOOD = TenantId("gold"), TenantId("flood")
KEPT = RunConfig(idle_timeout_seconds=1e6, maximum_age_seconds=1e6)


def application(tenant: TenantId) -> ApplicationConfig:
    return ApplicationConfig(namespace="ns", name=tenant, tenant=tenant, run=KEPT)


def test_it_loses_its_own_and_the_others_are_told_of_no_more_than_their_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MOST_RUNS", 200)
    channel = Listening()
    channel.state = PlugInSnapshot(unit="s")
    tenants = tuple(TenantConfig(name=tenant, weight=1) for tenant in (GOLD, FLOOD))
    config = PoolConfig(
        generation=1,
        namespace="ns",
        name="p",
        model="m",
        tenants=tenants,
        applications=(application(GOLD), application(FLOOD)),
    )
    shared = Sharing(channel)
    admission = Inside(config, channel, shared, lambda: 0.0)
    runs = admission.books.runs
    shared.heard(encode(Update(WriterId("another sidecar"), 0)), 0.0)
    for number in range(20):
        runs.leave(runs.enter(GOLD, application(GOLD), f"agent-{number}", 0.0), 0.0)
    admission.tick(0.0)
    for number in range(5000):
        runs.leave(runs.enter(FLOOD, application(FLOOD), f"r{number}", 0.0), 0.0)
    open_runs = list(runs.open)
    assert len(open_runs) == 100
    assert sum(run.tenant == GOLD for run in open_runs) == 20
    assert len(decode(shared.update(0.0)).opened) == 100
