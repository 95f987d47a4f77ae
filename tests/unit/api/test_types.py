"""The types refuse what the schema refuses, so that a file on a laptop is checked as one on a cluster."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from justitia_api.application import LLMApplicationSpec
from justitia_api.config import BoostConfig, SchedulingConfig
from justitia_api.engine import ModelSpec
from justitia_api.pool import ServingPoolSpec
from justitia_api.tenant import TenantSpec
from justitia_vocabulary.policies import INSIDE_THE_ENGINE_ONLY, PolicyName

TENANT: dict[str, Any] = {"namespaces": {"names": ["a"]}, "apiKeys": [{"secretRef": {"name": "k"}}]}
POOL: dict[str, Any] = {"model": {"uri": "hf://acme/model"}}
INSIDE: dict[str, Any] = {"policy": "UniBoost", "enforcement": "Engine"}
BOOST = {"minimumGamma": "0.01", "maximumGamma": "1.5"}


def boosting(**boost: str) -> dict[str, Any]:
    """A pool with policy UniBoost and this boost."""
    return POOL | {"scheduling": INSIDE | {"boost": boost}}


def boosted(minimum: str, maximum: str) -> dict[str, Any]:
    """One with these bounds of gamma."""
    return boosting(minimumGamma=minimum, maximumGamma=maximum)


def sharing(*tenants: tuple[str, str]) -> dict[str, Any]:
    """A pool with these tenants in these groups."""
    listed = [{"name": name, "group": group} for name, group in tenants]
    return POOL | {"engine": {"prefixCache": {"tenants": listed}}}


def in_front(policy: str) -> dict[str, Any]:
    """A pool with this policy in front of the engine."""
    return POOL | {"scheduling": {"policy": policy, "enforcement": "Sidecar"}}


def bursting(seconds: int, **scheduling: str) -> dict[str, Any]:
    """A pool with this burst."""
    return POOL | {"scheduling": scheduling | {"burstSeconds": seconds}}


def beating(seconds: int, **scheduling: str) -> dict[str, Any]:
    """A pool with this heartbeat."""
    return POOL | {"scheduling": scheduling | {"heartbeatSeconds": seconds}}


def stretching(times: int, **scheduling: str) -> dict[str, Any]:
    """A pool with this stretch."""
    return POOL | {"scheduling": scheduling | {"stretch": times}}


def aiming(*changes: dict[str, Any]) -> dict[str, Any]:
    """An application with an objective for each of the changes."""
    objective = {"metric": "TimeToFirstToken", "percentile": 99, "boundMilliseconds": 800}
    return {"tenantRef": {"name": "t"}, "poolRef": {"name": "p"}, "slo": [objective | change for change in changes]}


@pytest.mark.parametrize(
    ("type_", "document", "words"),
    [
        (TenantSpec, TENANT | {"tier": "a", "weight": "1"}, "tier and weight cannot both be set"),
        (TenantSpec, TENANT | {"weight": "0.0"}, "from 0.001 to 1000"),
        (TenantSpec, TENANT | {"weight": "1000.1"}, "from 0.001 to 1000"),
        (TenantSpec, TENANT | {"namespaces": {}}, "exactly one of names and selector"),
        (TenantSpec, TENANT | {"apiKeys": []}, "at least 1"),
        (ServingPoolSpec, {"model": {"uri": "s3://x"}}, "uri"),
        (ServingPoolSpec, POOL | {"scheduling": {"tiers": [{"name": "a", "weight": "0"}]}}, "from 0.001 to 1000"),
        (ServingPoolSpec, POOL | {"scheduling": {"tiers": [{"name": "a", "weight": "1"}] * 2}}, "different names"),
        (ServingPoolSpec, in_front("UniBoost"), "UniBoost works inside the engine only: set"),
        (ServingPoolSpec, in_front("SRPT"), "SRPT works inside"),
        (ServingPoolSpec, in_front("SJF"), "SJF works inside the engine only"),
        (ServingPoolSpec, POOL | {"scheduling": {"policy": "VTC", "boost": BOOST}}, "boost is for policies Tiered"),
        (ServingPoolSpec, bursting(-1), "greater than or equal to 0"),
        (ServingPoolSpec, bursting(5, policy="VTC"), "burstSeconds is for policy TieredJustitia with cost model"),
        (ServingPoolSpec, bursting(5, costModel="KVTokenTime"), "burstSeconds is for policy TieredJustitia with"),
        (ServingPoolSpec, beating(0), "greater than or equal to 1"),
        (ServingPoolSpec, beating(60, policy="VTC"), "heartbeatSeconds is for policy TieredJustitia only"),
        (ServingPoolSpec, stretching(0), "greater than or equal to 1"),
        (ServingPoolSpec, stretching(2, policy="VTC"), "stretch is for policy TieredJustitia only"),
        (ServingPoolSpec, sharing(("a", "g"), ("b", "g"), ("a", "h")), "a tenant is in one group"),
        (ServingPoolSpec, sharing(("A_b", "g")), "pattern"),
        (ServingPoolSpec, sharing(("a", "g.h")), "pattern"),
        (ServingPoolSpec, boosted("2", "1.5"), "minimumGamma must not be greater than maximumGamma"),
        (ServingPoolSpec, boosted("0", "1.5"), "minimumGamma must be greater than 0"),
        (ServingPoolSpec, boosted("1", "-1"), "pattern"),
        (ServingPoolSpec, boosting(minimumGamma="11"), "minimumGamma must not be greater than maximumGamma"),
        (ServingPoolSpec, boosting(gamma="1"), "gamma goes with mode Fixed"),
        (ServingPoolSpec, boosting(mode="SLO", gamma="1"), "gamma goes with mode Fixed"),
        (ServingPoolSpec, boosting(mode="Fixed"), "gamma goes with mode Fixed, and must be set there"),
        (ServingPoolSpec, boosting(mode="Fixed", gamma="0.0"), "gamma must be greater than 0"),
        (ServingPoolSpec, boosting(mode="Manual"), "mode"),
        (ServingPoolSpec, boosting(hysteresis="-1"), "pattern"),
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
        (LLMApplicationSpec, aiming({"percentile": 0}), "greater than or equal to 1"),
        (LLMApplicationSpec, aiming({"percentile": 100}), "less than or equal to 99"),
        (LLMApplicationSpec, aiming({"boundMilliseconds": 0}), "greater than or equal to 1"),
        (LLMApplicationSpec, aiming({"boundMilliseconds": 6001, "windowSeconds": 60}), "ten times the bound"),
        (LLMApplicationSpec, aiming({"metric": "Throughput"}), "metric"),
        (LLMApplicationSpec, aiming({}, {"boundMilliseconds": 900}), "two objectives of one metric and percentile"),
        (LLMApplicationSpec, aiming(*({"percentile": 90 + n} for n in range(9))), "at most 8"),
    ],
    ids=[
        "a weight beside a tier",
        "a weight of zero",
        "a weight beyond the range",
        "no namespaces chosen",
        "no keys",
        "a model from an unknown place",
        "a tier of weight zero",
        "a tier twice",
        "UniBoost in front of the engine",
        "SRPT in front of the engine",
        "SJF in front of the engine",
        "bounds of gamma for a policy without it",
        "a negative burst",
        "a burst of a policy that has none",
        "a burst in a unit that is no time",
        "a heartbeat of no time",
        "a heartbeat of a policy that has none",
        "no stretch",
        "a stretch of a policy that has none",
        "a tenant in two groups",
        "a tenant of a group that is no name",
        "a group that is no name",
        "crossed bounds of gamma",
        "gamma of zero",
        "negative gamma",
        "a smallest gamma above the largest by default",
        "gamma without a mode",
        "gamma with a mode that finds it",
        "a fixed gamma that is not given",
        "a fixed gamma of zero",
        "an unknown mode",
        "a negative hysteresis",
        "an amount that is none",
        "KEDA without Prometheus",
        "a gateway without a name",
        "a misspelt field",
        "no pool",
        "two pools",
        "a percentile of 0",
        "a percentile of 100",
        "a bound of 0",
        "a window of less than ten bounds",
        "an unknown metric",
        "two bounds of one metric and percentile",
        "too many objectives",
    ],
)
def test_it_is_refused(type_: type[BaseModel], document: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        type_.model_validate(document)


def test_a_model_is_served_under_its_path_unless_named() -> None:
    assert ModelSpec(uri="hf://acme/model").served_name == "acme/model"
    assert ModelSpec(uri="hf://acme/model", name="m").served_name == "m"
    assert ModelSpec(uri="file:///models/x").location == "/models/x"


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
        ("VTC", 0.1, 1, "boost is for policies TieredJustitia and UniBoost only"),
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


def test_a_boost_has_defaults_for_all_but_a_fixed_gamma() -> None:
    boost = ServingPoolSpec.model_validate(boosting()).scheduling.boost
    assert boost is not None
    assert boost.model_dump(by_alias=True) == {
        "mode": "SLO",
        "gamma": None,
        "minimumGamma": "0.001",
        "maximumGamma": "10",
        "hysteresis": "2",
    }
    assert float(boost.hysteresis) == BoostConfig().hysteresis
    for taken in (boosting(minimumGamma="1"), boosting(mode="Fixed", gamma="1.5"), boosted("1.5", "1.5")):
        assert ServingPoolSpec.model_validate(taken).scheduling.boost is not None


def test_a_ceiling_of_the_burst_goes_with_the_defaults() -> None:
    assert ServingPoolSpec.model_validate(bursting(0)).scheduling.burst_seconds == 0
    with pytest.raises(ValidationError, match="burstSeconds is for policy TieredJustitia"):
        SchedulingConfig(policy=PolicyName.VTC, burst_seconds=1)


def test_a_heartbeat_goes_with_the_default_policy_whatever_it_charges() -> None:
    spec = ServingPoolSpec.model_validate(beating(30, costModel="KVTokenTime"))
    assert spec.scheduling.heartbeat_seconds == 30
    with pytest.raises(ValidationError, match="heartbeatSeconds is for policy TieredJustitia"):
        SchedulingConfig(policy=PolicyName.VTC, heartbeat_seconds=1)


def test_a_stretch_goes_with_the_default_policy_whatever_it_charges() -> None:
    assert ServingPoolSpec.model_validate(stretching(100, costModel="KVTokenTime")).scheduling.stretch == 100
    with pytest.raises(ValidationError, match="stretch is for policy TieredJustitia"):
        SchedulingConfig(policy=PolicyName.VTC, stretch=2)


def test_an_objective_is_over_an_hour_unless_told() -> None:
    spec = LLMApplicationSpec.model_validate(aiming({}, {"percentile": 50, "windowSeconds": 600}))
    assert [each.window_seconds for each in spec.slo] == [3600, 600]
    assert LLMApplicationSpec.model_validate({"tenantRef": {"name": "t"}, "poolRef": {"name": "p"}}).slo == ()


def test_the_order_is_kept_in_the_engine_where_nothing_is_said() -> None:
    for scheduling in ({}, {"policy": "UniBoost"}):
        assert ServingPoolSpec.model_validate(POOL | {"scheduling": scheduling}).scheduling.enforcement == "Engine"


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("TimeToFirstToken", "P99 of time to first token"),
        ("TimePerOutputToken", "P99 of time per output token"),
        ("RequestCompletion", "P99 of request completion"),
        ("RunCompletion", "P99 of run completion"),
    ],
)
def test_an_objective_has_a_name_for_people(metric: str, name: str) -> None:
    [objective] = LLMApplicationSpec.model_validate(aiming({"metric": metric})).slo
    assert objective.name == name
