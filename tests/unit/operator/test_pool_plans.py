"""What the plans for pools, applications and tenants say: statuses in full, and what becomes of refused writes."""

from collections import Counter
from dataclasses import replace

import pytest

from justitia_api.conditions import Reason
from justitia_operator.decide.reconcile import reconcile, reconcile_all
from justitia_operator.world.installation import Installation
from justitia_operator.world.objects import APPLIED_HASH_ANNOTATION, Json, Kind, Ref
from justitia_operator.world.snapshot import Rejection, Snapshot
from support.owners import owned_by_us, set_by
from support.resources import (
    NOW,
    application,
    applied,
    child,
    condition,
    config,
    key,
    pool,
    put,
    settled,
    small_world,
    tenant,
    with_ready_engines,
    without,
    world,
)

POOL = Ref(Kind.SERVING_POOL, "apps", "shared")
CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")
ALICE = Ref(Kind.TENANT, "", "alice")
DEPLOYMENT = Ref(Kind.DEPLOYMENT, "apps", "justitia-shared")
CONFIG_MAP = Ref(Kind.CONFIG_MAP, "apps", "justitia-shared")


def status(snapshot: Snapshot, ref: Ref) -> Json:
    found: Json = snapshot.objects[ref]["status"]
    return found


def test_a_file_plans_a_status_of_everything_that_is_in_it() -> None:
    others = (tenant("bob"), key("bob"), application("talk", "bob"), pool("other"))
    plan = reconcile_all(small_world(*others), NOW)
    assert Counter(patch.ref for patch in plan.statuses) == Counter(
        [
            ALICE,
            ALICE._replace(name="bob"),
            CHAT,
            CHAT._replace(name="talk"),
            POOL,
            POOL._replace(name="other"),
        ]
    )


# Statuses.


def test_a_pools_status_says_what_runs_and_where_it_is() -> None:
    warm = settled(with_ready_engines(settled(put(small_world(), pool(replicas=3))), 2))
    found = status(warm, POOL)
    assert {name: value for name, value in found.items() if name != "conditions"} == {
        "replicas": 2,
        "readyReplicas": 2,
        "selector": "app.kubernetes.io/name=justitia-pool,justitia.dev/pool=shared",
        "endpoint": "http://justitia-shared.apps.svc/v1",
        "configurationGeneration": 1,
        "applications": 1,
        "observedGeneration": 1,
    }


@pytest.mark.parametrize(("where", "told"), [("apps", "shared"), ("more", "apps/shared")])
def test_an_applications_status_names_its_pool_as_it_is_seen_from_there(where: str, told: str) -> None:
    pool_ref = {"name": "shared", "namespace": "apps"}
    chat = application(namespace=where, poolRef=pool_ref)
    made = world(tenant(namespaces={"names": [where]}), key(), pool(allowedNamespaces={"names": ["more"]}), chat)
    assert status(settled(made), CHAT._replace(namespace=where))["pool"] == told


def test_a_tenant_is_accepted_and_never_paused() -> None:
    assert condition(settled(small_world()), Kind.TENANT, "alice", "Accepted")[:2] == ("True", "Accepted")


def test_a_tenant_in_a_tier_that_pools_lack_is_told_each_once() -> None:
    """Two applications in one pool are one problem. That the tenant has no key is told, too."""
    objects = (pool(), pool("other"), application("a"), application("b"), application("c", poolRef={"name": "other"}))
    found = condition(settled(world(tenant(tier="gold"), *objects)), Kind.TENANT, "alice", "ResolvedRefs")
    assert found[:2] == ("False", "SecretNotFound")
    problems = found[2].split("; ")
    assert len(problems) == len(set(problems)) == 3
    assert sum("gold" in problem for problem in problems) == 2


# Paused pools.


def test_a_paused_pool_gets_its_lost_documents_back() -> None:
    running = settled(small_world())
    paused = put(running, pool(paused=True) | {"status": status(running, POOL)})
    lost = settled(without(paused, CONFIG_MAP))
    assert config(lost).tenants == config(running).tenants
    assert config(lost).generation > config(running).generation


def test_a_paused_pool_whose_status_is_lost_keeps_its_documents_and_their_number() -> None:
    running = settled(put(settled(small_world()), tenant(weight="3")))
    assert config(running).generation == 2
    paused = settled(put(running, pool(paused=True)))
    assert config(paused) == config(running)
    assert status(paused, POOL)["configurationGeneration"] == 2


# Writes that were refused.


def refused(snapshot: Snapshot, ref: Ref, reason: Reason = Reason.OBJECT_REFUSED) -> Snapshot:
    """The API server has refused the object as it is wanted now, or others have added to it again and again."""
    wanted = next(iter([obj for obj in reconcile(snapshot, POOL, NOW).applies if obj["kind"] == ref.kind]), None)
    wanted = wanted or snapshot.objects[ref]
    rejection = Rejection(wanted["metadata"]["annotations"][APPLIED_HASH_ANNOTATION], "it says no", reason=reason)
    return replace(snapshot, rejections={ref: rejection})


def test_a_configuration_that_is_refused_is_not_counted_on() -> None:
    """Else each new status would make another one."""
    before = settled(small_world())
    after = refused(put(before, tenant(weight="3")), CONFIG_MAP)
    (patch,) = [patch for patch in reconcile(after, POOL, NOW).statuses if patch.ref == POOL]
    assert patch.status["configurationGeneration"] == 1


def contested(snapshot: Snapshot) -> Snapshot:
    """Others add a field to the Deployment again each time."""
    theirs = owned_by_us(child(snapshot, Kind.DEPLOYMENT), set_by("kubectl", "f:spec", "f:paused"))
    return refused(put(snapshot, theirs), DEPLOYMENT, Reason.FIELDS_ADDED)


def accepted(snapshot: Snapshot) -> tuple[str, str, str]:
    return condition(snapshot, Kind.SERVING_POOL, "shared", "Accepted")


def test_what_others_add_again_each_time_stays_and_is_told() -> None:
    found = contested(settled(small_world()))
    plan = reconcile(found, POOL, NOW)
    assert plan.applies == ()
    assert accepted(applied(found, plan)) == ("False", "FieldsAdded", "it says no")


def test_what_others_changed_beside_is_put_right() -> None:
    found = contested(settled(small_world()))
    deployment = found.objects[DEPLOYMENT]
    scaled = put(found, deployment | {"spec": deployment["spec"] | {"replicas": 7}})
    assert [obj["kind"] for obj in reconcile(scaled, POOL, NOW).applies] == ["Deployment"]


def test_once_nothing_is_left_of_what_others_added_all_is_well() -> None:
    before = settled(small_world())
    found = replace(before, rejections=contested(before).rejections)
    plan = reconcile(found, POOL, NOW)
    assert plan.applies == ()
    assert accepted(applied(found, plan))[:2] == ("True", "Accepted")


def test_an_object_that_was_deleted_meanwhile_is_made_again() -> None:
    found = without(contested(settled(small_world())), DEPLOYMENT)
    assert [obj["kind"] for obj in reconcile(found, POOL, NOW).applies] == ["Deployment"]


# Model caches.


@pytest.mark.parametrize(
    ("cache", "offered", "reason"),
    [
        ({"type": "Node"}, None, "NodeCacheNotOffered"),
        ({"type": "Node"}, "/var/models", "Accepted"),
        ({"type": "PersistentVolumeClaim", "claimName": "models"}, None, "Accepted"),
        (None, None, "Accepted"),
    ],
    ids=["of nodes that offer none", "of nodes", "of a claim", "none"],
)
def test_a_cache_on_nodes_has_to_be_offered(cache: Json | None, offered: str | None, reason: str) -> None:
    engine: Json = {} if cache is None else {"modelCache": cache}
    made = put(small_world(), pool(engine=engine))
    installation: Installation = replace(made.installation, node_cache_path=offered)
    after = settled(replace(made, installation=installation))
    assert accepted(after)[:2] == ("True" if reason == "Accepted" else "False", reason)
    assert (DEPLOYMENT in after.objects) is (reason == "Accepted")
