"""What a configuration becomes: a policy of the sidecar's own, or what the plug-in gets."""

from typing import Any

import pytest

from justitia_api.config import PoolConfig
from justitia_scheduling.policies.registry import COST_MODELS, POLICIES, build_policy
from justitia_sidecar.admission.order import build_configured_policy
from justitia_sidecar.engine.configuration import engine_configuration
from justitia_vocabulary.policies import INSIDE_THE_ENGINE_ONLY, CostModelName, Knob, PolicyName


def pool(**scheduling: Any) -> PoolConfig:
    tenants = [{"name": "gold", "weight": 4}]
    document = {"generation": 3, "namespace": "apps", "name": "p", "model": "m", "tenants": tenants}
    return PoolConfig.model_validate(document | {"scheduling": {"enforcement": "Engine"} | scheduling})


def test_every_policy_and_cost_model_of_resources_is_in_the_registry() -> None:
    assert POLICIES.keys() == {*PolicyName}
    assert COST_MODELS.keys() == {*CostModelName}


@pytest.mark.parametrize("policy", list(PolicyName))
def test_a_policy_is_built_and_told_by_its_name_in_the_registry(policy: PolicyName) -> None:
    config = pool(policy=policy)
    told = engine_configuration(config, None)
    in_front = PolicyName.FCFS if policy in INSIDE_THE_ENGINE_ONLY else policy
    assert type(build_configured_policy(config)) is POLICIES[in_front]
    assert not build_policy(told.policy, build_configured_policy(config).cost_model).oracle
    assert (told.generation, told.cost_model, told.weights, told.knobs) == (3, "EngineTime", {"gold": 4.0}, {})


def test_the_engine_is_told_the_heartbeat() -> None:
    assert engine_configuration(pool(heartbeatSeconds=30), None).knobs == {Knob.HEARTBEAT: 30}


def test_the_engine_is_told_the_stretch() -> None:
    assert engine_configuration(pool(stretch=4), None).knobs == {Knob.STRETCH: 4}


@pytest.mark.parametrize("burst", [None, 0.0, 7.0])
def test_the_engine_is_told_the_burst(burst: float | None) -> None:
    assert engine_configuration(pool(burstSeconds=burst), None).knobs == ({} if burst is None else {Knob.BURST: burst})
