"""What users get wrong, and where they are told so."""

from dataclasses import replace
from typing import Any

import pytest

from justitia_api.config import MINIMUM_KEY_BYTES
from justitia_operator.decide.reconcile import mistakes, reconcile, reconcile_all
from justitia_operator.world.objects import Json, Kind, Ref, ref_of
from justitia_operator.world.snapshot import Rejection
from support.resources import (
    NOW,
    application,
    child,
    condition,
    config,
    key,
    keys,
    namespace,
    pool,
    put,
    resource,
    settled,
    small_world,
    tenant,
    world,
)

POOL = Ref(Kind.SERVING_POOL, "apps", "shared")
CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")
KEY = "a-long-enough-token-of-alice"
MISTAKES: list[Any] = [
    pytest.param(world(pool(), application()), "ResolvedRefs", "TenantNotFound", id="no such tenant"),
    pytest.param(world(tenant(), key(), application()), "ResolvedRefs", "PoolNotFound", id="no such pool"),
    pytest.param(
        world(tenant(namespaces={"names": ["elsewhere"]}), key(), pool(), application()),
        "Accepted",
        "NamespaceNotAllowed",
        id="a namespace that the tenant does not name",
    ),
    pytest.param(
        world(
            tenant(namespaces={"selector": {"matchLabels": {"team": "a"}}}),
            key(),
            pool(),
            application(),
            namespace(team="b"),
        ),
        "Accepted",
        "NamespaceNotAllowed",
        id="a namespace with another label",
    ),
    pytest.param(
        world(tenant(namespaces={"selector": {"matchLabels": {"team": "a"}}}), key(), pool(), application()),
        "Accepted",
        "NamespaceNotAllowed",
        id="a namespace whose labels are not known",
    ),
    pytest.param(
        world(tenant(tier="gold"), key(), pool(), application()), "ResolvedRefs", "UnknownTier", id="no such tier"
    ),
    pytest.param(
        world(tenant(), key(), pool(), pool("chat"), application(pool={"model": {"uri": "hf://a/b"}})),
        "Accepted",
        "PoolNameTaken",
        id="an inline pool under the name of another",
    ),
    pytest.param(
        world(tenant(), key(), pool(), application(pool={"model": {"uri": "ftp://a/b"}})),
        "Accepted",
        "InvalidSpec",
        id="a spec that the schema would have refused",
    ),
    pytest.param(
        world(tenant(weight="0"), key(), pool(), application()),
        "ResolvedRefs",
        "ReferentNotAccepted",
        id="a tenant that is not accepted",
    ),
    pytest.param(
        world(tenant(), key(), pool(replicas=0), application()),
        "ResolvedRefs",
        "ReferentNotAccepted",
        id="a pool that is not accepted",
    ),
]


@pytest.mark.parametrize(("snapshot", "type_", "reason"), MISTAKES)
def test_an_applications_mistake_is_a_condition_and_it_is_not_served(snapshot: Any, type_: str, reason: str) -> None:
    after = settled(snapshot)
    assert condition(after, Kind.LLM_APPLICATION, "chat", type_)[:2] == ("False", reason)
    assert condition(after, Kind.LLM_APPLICATION, "chat", "Ready")[0] == "False"
    if Ref(Kind.CONFIG_MAP, "apps", "justitia-shared") in after.objects:
        assert config(after).applications == ()
        assert keys(after).keys == ()


def test_a_namespace_is_allowed_by_its_labels() -> None:
    selector = {"selector": {"matchLabels": {"team": "a"}}}
    snapshot = settled(put(small_world(), tenant(namespaces=selector), namespace(team="a", other="b")))
    assert condition(snapshot, Kind.LLM_APPLICATION, "chat", "Accepted")[0] == "True"


@pytest.mark.parametrize(
    ("secrets", "reason", "what"),
    [
        ((), "SecretNotFound", "Secret alice-key in namespace justitia-system does not exist"),
        ((key(entry="other"),), "SecretNotFound", "has no entry token"),
        ((key() | {"data": {"token": "a-long-enough-token-of-alice!"}},), "SecretNotFound", "has no entry token"),
        ((key() | {"data": {"token": "!" + key()["data"]["token"]}},), "SecretNotFound", "has no entry token"),
        ((key(token="k" * (MINIMUM_KEY_BYTES - 1)),), "KeyTooShort", f"has {MINIMUM_KEY_BYTES - 1} bytes"),
    ],
    ids=[
        "no Secret",
        "no such entry",
        "a value that is not base64",
        "a value with a sign that is not",
        "one byte too few",
    ],
)
def test_a_tenant_without_a_usable_key_is_not_ready(secrets: tuple[Any, ...], reason: str, what: str) -> None:
    snapshot = settled(world(tenant(), pool(), application(), *secrets))
    status, found, message = condition(snapshot, Kind.TENANT, "alice", "ResolvedRefs")
    assert (status, found) == ("False", reason)
    assert what in message
    assert condition(snapshot, Kind.TENANT, "alice", "Ready")[:2] == ("False", "RefsNotResolved")
    assert keys(snapshot).keys == ()


def test_the_shortest_key_that_is_allowed_is_usable() -> None:
    snapshot = settled(world(tenant(), pool(), application(), key(token="k" * MINIMUM_KEY_BYTES)))
    assert condition(snapshot, Kind.TENANT, "alice", "ResolvedRefs")[0] == "True"


@pytest.mark.parametrize(
    ("tiers", "known"),
    [([], "has tiers none:"), ([{"name": "tin", "weight": "1"}, {"name": "iron", "weight": "2"}], "tin, iron:")],
    ids=["without tiers", "with others"],
)
def test_who_is_in_an_unknown_tier_is_told_those_that_the_pool_has(tiers: list[Json], known: str) -> None:
    snapshot = settled(world(tenant(tier="gold"), key(), pool(scheduling={"tiers": tiers}), application()))
    assert known in condition(snapshot, Kind.LLM_APPLICATION, "chat", "ResolvedRefs")[2]


def test_a_key_of_two_tenants_stays_the_older_ones() -> None:
    thief = tenant("aaa-thief", created="2026-01-01T00:00:01Z")
    snapshot = settled(small_world(thief, key("aaa-thief", KEY), application("theft", "aaa-thief")))
    assert condition(snapshot, Kind.TENANT, "aaa-thief", "ResolvedRefs")[:2] == ("False", "DuplicateKey")
    assert [entry.tenant for entry in keys(snapshot).keys] == ["alice"]


@pytest.mark.parametrize(
    ("engine", "named"),
    [({"args": ["--port=1"]}, "--port"), ({"env": [{"name": "VLLM_DP_SIZE", "value": "2"}]}, "VLLM_DP_SIZE")],
    ids=["argument", "variable"],
)
def test_a_refused_engine_argument_withholds_the_deployment_and_nothing_else(engine: Json, named: str) -> None:
    running = settled(small_world())
    edited = pool(engine=engine, replicas=3) | {"status": running.objects[POOL]["status"]}
    after = settled(put(running, edited, tenant(weight="9")))
    assert condition(after, Kind.SERVING_POOL, "shared", "Accepted")[:2] == ("False", "EngineArgumentRefused")
    assert named in condition(after, Kind.SERVING_POOL, "shared", "Accepted")[2]
    assert child(after, Kind.DEPLOYMENT) == child(running, Kind.DEPLOYMENT)
    assert config(after).tenants[0].weight == 9


def test_mistakes_of_a_plan_name_the_resource_and_the_reason() -> None:
    (mistake,) = mistakes(reconcile_all(world(pool(), application()), NOW))
    assert (mistake.ref, mistake.reason) == (CHAT, "TenantNotFound")


def test_the_same_object_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="ServingPool apps/shared is given twice"):
        world(pool(), pool())


def test_a_tenant_whose_spec_cannot_be_used_says_which_field() -> None:
    snapshot = settled(world(resource("Tenant", "alice", {"apiKeys": []})))
    status, reason, message = condition(snapshot, Kind.TENANT, "alice", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert message.startswith("spec.namespaces: Field required")


def test_what_the_api_server_refused_is_not_offered_again_until_it_is_wanted_differently() -> None:
    snapshot = small_world()
    deployment = next(o for o in reconcile(snapshot, POOL, NOW).applies if o["kind"] == "Deployment")
    hash_ = deployment["metadata"]["annotations"]["justitia.dev/applied-hash"]
    refused = replace(snapshot, rejections={ref_of(deployment): Rejection(hash_, "422: limits")})
    plan = reconcile(refused, POOL, NOW)
    assert "Deployment" not in [obj["kind"] for obj in plan.applies]
    accepted = plan.statuses[0].status["conditions"][0]
    assert (accepted["type"], accepted["status"], accepted["reason"]) == ("Accepted", "False", "ObjectRefused")
    again = replace(snapshot, rejections={ref_of(deployment): Rejection(hash_, "422: limits", retry=True)})
    retried = reconcile(again, POOL, NOW)
    assert "Deployment" in [obj["kind"] for obj in retried.applies]
    assert retried.statuses == plan.statuses, "until it is taken, nothing has changed for the user"
    changed = put(refused, pool(replicas=2))
    assert "Deployment" in [obj["kind"] for obj in reconcile(changed, POOL, NOW).applies]


def test_a_refused_inline_pool_is_the_applications_mistake() -> None:
    snapshot = world(tenant(), key(), application(pool={"model": {"uri": "hf://a/b"}}))
    (own,) = reconcile(snapshot, CHAT, NOW).applies
    hash_ = own["metadata"]["annotations"]["justitia.dev/applied-hash"]
    after = settled(replace(snapshot, rejections={ref_of(own): Rejection(hash_, "422: no")}))
    assert condition(after, Kind.LLM_APPLICATION, "chat", "Accepted")[:2] == ("False", "ObjectRefused")


OPEN = [{"names": ["more"]}, {"selector": {"matchLabels": {"team": "a"}}}]


@pytest.mark.parametrize("allowed", OPEN, ids=["by name", "by label"])
def test_a_pool_serves_applications_of_namespaces_that_it_allows(allowed: dict[str, Any]) -> None:
    guest = application("guest", namespace="more", poolRef={"name": "shared", "namespace": "apps"})
    host = pool(allowedNamespaces=allowed)
    found = settled(
        world(tenant(namespaces={"names": ["apps", "more"]}), key(), host, guest, namespace("more", team="a"))
    )
    assert [(a.namespace, a.name) for a in config(found).applications] == [("more", "guest")]
    status = found.objects[Ref(Kind.LLM_APPLICATION, "more", "guest")]["status"]
    assert status["endpoint"] == "http://justitia-shared.apps.svc/applications/more/guest/v1"
    assert status["pool"] == "apps/shared"


@pytest.mark.parametrize(
    "host",
    [
        pytest.param([pool()], id="a pool that allows none"),
        pytest.param([pool(allowedNamespaces={"names": ["others"]})], id="a pool that allows others"),
        pytest.param([pool(allowedNamespaces={"selector": {"matchLabels": {"team": "b"}}})], id="a label it lacks"),
        pytest.param([], id="no pool"),
    ],
)
def test_a_pool_of_another_namespace_that_does_not_allow_it_is_as_good_as_none(host: list[dict[str, Any]]) -> None:
    guest = application("guest", namespace="more", poolRef={"name": "shared", "namespace": "apps"})
    tenants = tenant(namespaces={"names": ["apps", "more"]})
    found = settled(world(tenants, key(), *host, guest, namespace("more", team="a")))
    (status, reason, message) = condition(found, Kind.LLM_APPLICATION, "guest", "ResolvedRefs", namespace="more")
    assert (status, reason) == ("False", "RefNotPermitted")
    assert "does not exist or does not allow namespace more" in message
