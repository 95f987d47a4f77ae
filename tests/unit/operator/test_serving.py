"""Ready and PoolFairness say what a client would see: all combinations of key, tier, engine, policy and application."""

from itertools import product

import pytest

from justitia_api.conditions import ConditionType, Reason
from justitia_api.pool import ServingPool
from justitia_operator.decide.engines import Engines
from justitia_operator.decide.serving import fairness_verdict
from justitia_operator.world.objects import Kind, Ref
from justitia_operator.world.snapshot import Snapshot
from justitia_operator.world.verdicts import Verdict
from support.resources import (
    application,
    child,
    condition,
    key,
    pool,
    put,
    settled,
    tenant,
    with_ready_engines,
    without,
    world,
)

CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")
KEY = Ref(Kind.SECRET, "justitia-system", "alice-key")


def ready(snapshot: Snapshot, kind: Kind, name: str) -> tuple[str, str]:
    return condition(snapshot, kind, name, "Ready")[:2]


@pytest.mark.parametrize(
    ("has_key", "knows_tier", "has_engine", "has_application"), list(product([True, False], repeat=4))
)
def test_ready_is_true_where_a_client_gets_answers_and_nowhere_else(
    has_key: bool, knows_tier: bool, has_engine: bool, has_application: bool
) -> None:
    objects = [
        tenant(tier="gold"),
        pool(scheduling={"tiers": [{"name": "gold" if knows_tier else "tin", "weight": "2"}]}),
    ]
    objects += [key()] if has_key else []
    objects += [application()] if has_application else []
    snapshot = settled(world(*objects))
    snapshot = settled(with_ready_engines(snapshot, 1 if has_engine else 0))
    answers = "True" if has_key and knows_tier and has_engine and has_application else "False"
    assert ready(snapshot, Kind.TENANT, "alice")[0] == answers
    if has_application:
        assert ready(snapshot, Kind.LLM_APPLICATION, "chat")[0] == answers


def test_who_loses_the_last_key_is_not_ready_and_told_of_401() -> None:
    warm = settled(with_ready_engines(settled(world(tenant(), key(), pool(), application()))))
    assert ready(warm, Kind.LLM_APPLICATION, "chat") == ("True", "Serving")
    revoked = settled(without(warm, KEY))
    status, reason, message = condition(revoked, Kind.LLM_APPLICATION, "chat", "Ready")
    assert (status, reason) == ("False", "RefsNotResolved")
    assert "401" in message
    assert "Tenant alice" in message


def test_a_tenant_without_applications_is_told_to_make_one() -> None:
    alone = settled(with_ready_engines(settled(world(tenant(), key(), pool()))))
    assert ready(alone, Kind.TENANT, "alice") == ("False", "NoApplications")


def test_a_tenant_is_ready_while_one_of_its_applications_is() -> None:
    both = world(tenant(), key(), pool(), application(), application("late", poolRef={"name": "missing"}))
    warm = settled(with_ready_engines(settled(both)))
    status, _, message = condition(warm, Kind.TENANT, "alice", "Ready")
    assert (status, message) == ("True", "1 API keys are valid; 1 of 2 applications are served")


def test_all_applications_that_are_served_count() -> None:
    both = world(tenant(), key(), pool(), application(), application("mail"))
    warm = settled(with_ready_engines(settled(both)))
    assert condition(warm, Kind.TENANT, "alice", "Ready")[2] == "1 API keys are valid; 2 of 2 applications are served"


@pytest.mark.parametrize(
    ("names", "more"),
    [
        (("chat",), ""),
        (("chat", "mail"), " (the first of 2 applications; none of them is served)"),
    ],
)
def test_a_tenant_says_what_keeps_its_first_application(names: tuple[str, ...], more: str) -> None:
    cold = settled(world(tenant(), key(), pool(), *map(application, names)))
    status, reason, message = condition(cold, Kind.TENANT, "alice", "Ready")
    assert (status, reason) == ("False", "PoolNotReady")
    assert message == f"ServingPool shared is not ready: no engine takes requests yet{more}"


def test_each_application_is_judged_by_its_own_pool() -> None:
    mail = application("mail", poolRef={"name": "other"})
    cold = settled(world(tenant(), key(), pool(), pool("other"), application(), mail))
    warm = settled(with_ready_engines(cold, pool="other"))
    assert ready(warm, Kind.LLM_APPLICATION, "chat")[0] == "False"
    assert ready(warm, Kind.LLM_APPLICATION, "mail")[0] == "True"
    assert condition(warm, Kind.TENANT, "alice", "Ready")[2] == "1 API keys are valid; 1 of 2 applications are served"


def test_what_keeps_the_engines_from_starting_is_what_keeps_the_application() -> None:
    cold = settled(world(tenant(), key(), pool(), application()))
    failed = {"conditions": [{"type": "Progressing", "status": "False", "message": "quota exceeded"}]}
    stuck = settled(put(cold, child(cold, Kind.DEPLOYMENT) | {"status": failed}))
    message = condition(stuck, Kind.LLM_APPLICATION, "chat", "Ready")[2]
    assert message == "ServingPool shared is not ready: quota exceeded"


def test_an_application_that_the_configuration_does_not_have_is_not_served_yet() -> None:
    warm = settled(with_ready_engines(settled(world(tenant(), key(), pool(), application()))))
    paused = settled(put(warm, pool(paused=True), application("late")))
    status, reason, message = condition(paused, Kind.LLM_APPLICATION, "late", "Ready")
    assert (status, reason) == ("False", "PoolNotReady")
    assert message.startswith("ServingPool shared does not serve the application yet")


def test_nothing_is_fair_while_no_engine_serves() -> None:
    cold = settled(world(tenant(), key(), pool(), application()))
    assert condition(cold, Kind.SERVING_POOL, "shared", "PoolFairness")[:2] == ("False", "NoneAvailable")
    warm = settled(with_ready_engines(cold))
    assert condition(warm, Kind.SERVING_POOL, "shared", "PoolFairness")[:2] == ("True", "SingleReplica")


def test_two_engines_that_serve_during_a_rollout_share_apart() -> None:
    surge = settled(with_ready_engines(settled(world(tenant(), key(), pool(), application())), 2))
    assert condition(surge, Kind.SERVING_POOL, "shared", "PoolFairness")[:2] == ("False", "PerReplica")


@pytest.mark.parametrize("policy", ["FCFS", "SRPT", "SJF", "UniBoost"])
def test_a_policy_without_weights_is_not_fair_and_shows_no_weight_in_effect(policy: str) -> None:
    where = "Sidecar" if policy == "FCFS" else "Engine"
    made = pool(scheduling={"policy": policy, "enforcement": where})
    warm = settled(with_ready_engines(settled(world(tenant(weight="3"), key(), made, application()))))
    assert condition(warm, Kind.SERVING_POOL, "shared", "PoolFairness")[:2] == ("False", "PolicyWithoutShares")
    assert warm.objects[Ref(Kind.TENANT, "", "alice")]["status"].get("weights", []) == []


def test_a_policy_that_failed_gives_nobody_a_share() -> None:
    made = ServingPool.model_validate(pool(scheduling={"policy": "VTC", "enforcement": "Engine"}))
    failed = Verdict(ConditionType.POLICY_IN_EFFECT, False, Reason.POLICY_FAILED, "it raised")
    found = fairness_verdict(made, Engines(existing=1, ready=1), failed)
    assert (found.type, found.holds, found.reason) == (ConditionType.POOL_FAIRNESS, False, Reason.POLICY_FAILED)
    assert "requests are served in the order of arrival" in found.message
    assert fairness_verdict(made, Engines(existing=1, ready=1)).holds


@pytest.mark.parametrize("policy", ["VTC", "Justitia", "TieredJustitia"])
def test_a_policy_with_weights_shows_them(policy: str) -> None:
    made = pool(scheduling={"policy": policy})
    warm = settled(with_ready_engines(settled(world(tenant(weight="3"), key(), made, application()))))
    assert condition(warm, Kind.SERVING_POOL, "shared", "PoolFairness")[0] == "True"
    weights = warm.objects[Ref(Kind.TENANT, "", "alice")]["status"]["weights"]
    assert weights == [{"pool": "apps/shared", "weight": "3"}]
