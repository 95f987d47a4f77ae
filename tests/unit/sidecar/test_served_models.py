"""Which models a tenant may ask for, and which are listed for it."""

import json

import msgspec
import pytest

from justitia_api.config import AdapterConfig
from justitia_sidecar.identity.served_models import ServedModels
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import TenantId
from support.sidecar_client import GOLD, pool

SILVER = TenantId("silver")
ADAPTERS = (AdapterConfig(name="law", tenants=("gold",)), AdapterConfig(name="sql"))
TOLD = {"object": "list", "data": [{"id": name, "root": f"/{name}"} for name in ("m", "law", "sql", "loaded-later")]}


def refusal(models: ServedModels, tenant: TenantId, model: str) -> RefusalError:
    with pytest.raises(RefusalError) as refused:
        models.check(tenant, model)
    return refused.value


@pytest.mark.parametrize(
    ("tenant", "model", "permitted"),
    [
        (GOLD, "m", True),
        (GOLD, "law", True),
        (GOLD, "sql", True),
        (SILVER, "m", True),
        (SILVER, "law", False),
        (SILVER, "sql", True),
        (GOLD, "loaded-later", False),
        (GOLD, "", False),
    ],
)
def test_the_pools_model_is_for_all_and_an_adapter_for_whom_it_names(
    tenant: TenantId, model: str, permitted: bool
) -> None:
    assert ServedModels(pool(adapters=ADAPTERS)).permits(tenant, model) is permitted


def test_a_refusal_names_what_the_tenant_may_use_and_nothing_else() -> None:
    error = refusal(ServedModels(pool(adapters=ADAPTERS)), SILVER, "law")
    assert error.refusal.status == 404
    assert error.message == "This pool serves your tenant the models 'm', 'sql', not 'law'."
    assert refusal(ServedModels(pool()), GOLD, "x").message == "This pool serves your tenant the model 'm', not 'x'."


def test_a_refusal_is_short_however_many_adapters_there_are() -> None:
    adapters = tuple(AdapterConfig(name=f"a{number}") for number in range(64))
    assert "'a18' and 45 more, not 'x'" in refusal(ServedModels(pool(adapters=adapters)), GOLD, "x").message


def test_the_engines_list_is_told_without_what_the_tenant_may_not_use() -> None:
    models, told = ServedModels(pool(adapters=ADAPTERS)), json.dumps(TOLD).encode()
    found = json.loads(models.listed(SILVER, told))
    assert found == {"object": "list", "data": [{"id": "m", "root": "/m"}, {"id": "sql", "root": "/sql"}]}
    assert [each["id"] for each in json.loads(models.listed(GOLD, told))["data"]] == ["m", "law", "sql"]


def test_what_is_no_list_of_models_is_told_to_nobody() -> None:
    with pytest.raises(msgspec.DecodeError):
        ServedModels(pool()).listed(GOLD, b'{"data": [1]}')
