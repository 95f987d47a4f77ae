"""The types refuse what the schema refuses, so that a file on a laptop is checked as one on a cluster."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from justitia_api.application import LLMApplicationSpec
from justitia_api.config import INSIDE_THE_ENGINE_ONLY, PolicyName, SchedulingConfig
from justitia_api.engine import Model
from justitia_api.pool import ServingPoolSpec
from justitia_api.tenant import TenantSpec

TENANT: dict[str, Any] = {"namespaces": {"names": ["a"]}, "apiKeys": [{"secretRef": {"name": "k"}}]}
POOL: dict[str, Any] = {"model": {"uri": "hf://acme/model"}}
INSIDE: dict[str, Any] = {"policy": "UniBoost", "enforcement": "Engine"}
BOOST = {"minimumGamma": "0.01", "maximumGamma": "1.5"}


def boosted(minimum: str, maximum: str) -> dict[str, Any]:
    """A pool with policy UniBoost and these bounds of gamma."""
    return POOL | {"scheduling": INSIDE | {"boost": {"minimumGamma": minimum, "maximumGamma": maximum}}}


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
        (ServingPoolSpec, POOL | {"scheduling": {"policy": "UniBoost"}}, "UniBoost works inside the engine only: set"),
        (ServingPoolSpec, POOL | {"scheduling": {"policy": "SRPT", "enforcement": "Sidecar"}}, "SRPT works inside"),
        (ServingPoolSpec, POOL | {"scheduling": {"policy": "SJF"}}, "SJF works inside the engine only"),
        (ServingPoolSpec, POOL | {"scheduling": {"boost": BOOST}}, "boost is for policy UniBoost only"),
        (ServingPoolSpec, boosted("2", "1.5"), "minimumGamma must not be greater than maximumGamma"),
        (ServingPoolSpec, boosted("0", "1.5"), "minimumGamma must be greater than 0"),
        (ServingPoolSpec, boosted("1", "-1"), "pattern"),
        (ServingPoolSpec, POOL | {"scheduling": INSIDE | {"boost": {"minimumGamma": "1"}}}, "maximumGamma"),
        (ServingPoolSpec, POOL | {"engine": {"resources": {"limits": {"cpu": "many"}}}}, "pattern"),
        (
            ServingPoolSpec,
            POOL | {"autoscaling": {"scaler": "KEDA", "maximumReplicas": 2}},
            "prometheusAddress must be",
        ),
        (ServingPoolSpec, POOL | {"gateway": {"parentRefs": []}}, "at least 1"),
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
        "UniBoost in front of the engine",
        "SRPT in front of the engine",
        "SJF in front of the engine",
        "bounds of gamma for a policy without it",
        "crossed bounds of gamma",
        "gamma of zero",
        "negative gamma",
        "one bound of gamma",
        "an amount that is none",
        "KEDA without Prometheus",
        "a gateway without a name",
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


@pytest.mark.parametrize("policy", list(INSIDE_THE_ENGINE_ONLY))
def test_a_policy_for_the_engine_is_taken_there_and_only_there(policy: PolicyName) -> None:
    spec = ServingPoolSpec.model_validate(POOL | {"scheduling": {"policy": policy, "enforcement": "Engine"}})
    assert spec.scheduling.policy is policy
    assert SchedulingConfig(policy=policy, enforcement="Engine").policy is policy
    with pytest.raises(ValidationError, match="set enforcement to Engine"):
        SchedulingConfig(policy=policy)


@pytest.mark.parametrize(
    ("policy", "minimum", "maximum", "words"),
    [
        ("VTC", 0.1, 1, "boost is for policy UniBoost only"),
        ("UniBoost", 2, 1, "must not be greater"),
        ("UniBoost", 0, 1, "greater than 0"),
        ("UniBoost", 1, "inf", "finite"),
    ],
)
def test_a_document_of_a_pool_refuses_bounds_as_the_resource_does(
    policy: str, minimum: float, maximum: float | str, words: str
) -> None:
    document = {"policy": policy, "enforcement": "Engine"}
    boost = {"minimumGamma": minimum, "maximumGamma": maximum}
    with pytest.raises(ValidationError, match=words):
        SchedulingConfig.model_validate(document | {"boost": boost})


def test_equal_bounds_fix_gamma() -> None:
    assert ServingPoolSpec.model_validate(boosted("1.5", "1.5")).scheduling.boost is not None
