"""The types refuse what the schema refuses, so that a file on a laptop is checked as one on a cluster."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from justitia_api.application import LLMApplicationSpec
from justitia_api.pool import Model, ServingPoolSpec
from justitia_api.tenant import TenantSpec

TENANT: dict[str, Any] = {"namespaces": {"names": ["a"]}, "apiKeys": [{"secretRef": {"name": "k"}}]}
POOL: dict[str, Any] = {"model": {"uri": "hf://acme/model"}}


@pytest.mark.parametrize(
    ("type_", "document", "words"),
    [
        (TenantSpec, TENANT | {"tier": "a", "weight": "1"}, "tier and weight cannot both be set"),
        (TenantSpec, TENANT | {"weight": "0.0"}, "greater than 0"),
        (TenantSpec, TENANT | {"namespaces": {}}, "exactly one of names and selector"),
        (TenantSpec, TENANT | {"apiKeys": []}, "at least 1"),
        (ServingPoolSpec, {"model": {"uri": "s3://x"}}, "uri"),
        (ServingPoolSpec, POOL | {"scheduling": {"tiers": [{"name": "a", "weight": "0"}]}}, "greater than 0"),
        (ServingPoolSpec, POOL | {"scheduling": {"tiers": [{"name": "a", "weight": "1"}] * 2}}, "different names"),
        (ServingPoolSpec, POOL | {"engine": {"resources": {"limits": {"cpu": "many"}}}}, "pattern"),
        (ServingPoolSpec, POOL | {"replica": 2}, "replica"),
        (LLMApplicationSpec, {"tenantRef": {"name": "t"}}, "exactly one of poolRef and pool"),
        (LLMApplicationSpec, {"tenantRef": {"name": "t"}, "poolRef": {"name": "p"}, "pool": POOL}, "exactly one"),
    ],
    ids=[
        "a weight beside a tier",
        "a weight of zero",
        "no namespaces chosen",
        "no keys",
        "a model from an unknown place",
        "a tier of weight zero",
        "a tier twice",
        "an amount that is none",
        "a misspelt field",
        "no pool",
        "two pools",
    ],
)
def test_it_is_refused(type_: type[BaseModel], document: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        type_.model_validate(document)


def test_a_model_is_served_under_its_path_unless_named() -> None:
    assert Model(uri="hf://acme/model").served_name == "acme/model"
    assert Model(uri="hf://acme/model", name="m").served_name == "m"
    assert Model(uri="file:///models/x").location == "/models/x"


def test_amounts_keep_the_form_they_were_given_in() -> None:
    limits = {"nvidia.com/gpu": 1, "memory": "16Gi", "cpu": "500m"}
    spec = ServingPoolSpec.model_validate(POOL | {"engine": {"resources": {"limits": limits}}})
    assert spec.engine.resources.limits == limits
