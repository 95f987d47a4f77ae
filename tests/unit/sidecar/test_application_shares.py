"""What applications had of their tenants' service, in the status and as metrics."""

import time
from collections.abc import AsyncIterator

import pytest

from justitia_api.config import ApplicationConfig, KeyTable, PoolConfig, SchedulingConfig, TenantConfig
from justitia_channel.messages import PlugInSnapshot
from justitia_channel.wire import LONGEST_LINE, encode
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.engine.configuration import engine_configuration
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.ports.control import LONGEST_DOCUMENTS
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.policies import CostModelName
from justitia_vocabulary.units import ApplicationId
from support.sidecar_client import PEPPER, pool

CHAT, BATCH, ALONE = (ApplicationId(f"ns/{name}") for name in ("chat", "batch", "alone"))
TENANT_OF = {"chat": "gold", "batch": "gold", "alone": "silver"}


def configured(generation: int, *names: str, **changes: object) -> PoolConfig:
    return pool(
        generation,
        tenants=tuple(TenantConfig(name=name, weight=1) for name in ("gold", "silver")),
        applications=tuple(ApplicationConfig(namespace="ns", name=name, tenant=TENANT_OF[name]) for name in names),
        **changes,
    )


@pytest.fixture
async def sidecar() -> AsyncIterator[Sidecar]:
    async with EngineClient.session() as session:
        sidecar = Sidecar(EngineClient("http://127.0.0.1:1", session), SidecarMetrics(), time.monotonic)
        sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER))
        sidecar.parts.current.put_config(configured(1, "chat", "batch", "alone"))
        yield sidecar


def served(sidecar: Sidecar, now: float, **had: float) -> None:
    service = {ApplicationId(f"ns/{name}"): amount for name, amount in had.items()}
    sidecar.report.application_shares.sample(service, {}, now)


def shares(sidecar: Sidecar) -> dict[str, float | None]:
    return {each.name: each.share for each in sidecar.report.status().applications}


def metric(sidecar: Sidecar, name: str, application: ApplicationId) -> float | None:
    list(sidecar.report.set_gauges())
    labels = {"tenant": TENANT_OF[application.removeprefix("ns/")], "application": application}
    return sidecar.parts.metrics.registry.get_sample_value(name, labels)


async def test_an_applications_share_is_of_its_tenants_service_in_the_window(sidecar: Sidecar) -> None:
    served(sidecar, 0.0, chat=100.0, alone=7.0)
    served(sidecar, 60.0, chat=130.0, batch=10.0, alone=7.0)
    assert shares(sidecar) == {"chat": 0.75, "batch": 0.25, "alone": None}
    assert metric(sidecar, "justitia_application_share", CHAT) == 0.75
    assert metric(sidecar, "justitia_application_share", ALONE) == 0.0


async def test_its_service_is_what_the_policy_charged(sidecar: Sidecar) -> None:
    admission = sidecar.parts.current.configured().admission
    assert isinstance(admission.application_service, dict)
    admission.application_service.update({BATCH: 12.5, ApplicationId("ns/gone"): 3.0})
    assert [(each.name, each.service) for each in sidecar.report.status().applications] == [
        ("chat", 0.0),
        ("batch", 12.5),
        ("alone", 0.0),
    ]
    assert metric(sidecar, "justitia_application_service", BATCH) == 12.5


async def test_only_applications_of_the_configuration_have_metrics(sidecar: Sidecar) -> None:
    assert metric(sidecar, "justitia_application_service", BATCH) == 0.0
    sidecar.parts.current.put_config(configured(2, "chat"))
    assert metric(sidecar, "justitia_application_service", BATCH) is None
    assert metric(sidecar, "justitia_application_service", CHAT) == 0.0


def test_the_plug_in_is_told_of_as_many_applications_as_documents_can_hold() -> None:
    """Whoever may create applications cannot make a line too long, which would end the order inside the engine."""
    longest = "n" * 63, "a" * 253
    one = ApplicationConfig(namespace=longest[0], name=longest[1], tenant="gold", weight=1.234567, priority=-10)
    count = LONGEST_DOCUMENTS // len(one.model_dump_json(by_alias=True))
    names = (f"{number:0253}" for number in range(count))
    config = pool(applications=tuple(one.model_copy(update={"name": name}) for name in names))
    told = encode(engine_configuration(config, None))
    had = {each.id: 1234567.890123456 for each in config.applications}
    assert len(told) > LONGEST_DOCUMENTS / 3
    assert len(encode(PlugInSnapshot(application_service=had))) < LONGEST_LINE


async def test_service_in_another_unit_begins_again(sidecar: Sidecar) -> None:
    served(sidecar, 0.0, chat=100.0)
    other = SchedulingConfig(cost_model=CostModelName.KV_TOKEN_TIME)
    sidecar.parts.current.put_config(configured(2, "chat", "batch", scheduling=other))
    assert shares(sidecar) == {"chat": None, "batch": None}
