"""What is written for which resources, and that nothing is written twice."""

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml

from justitia_api.config import BoostConfig, KeyTable, PoolDocuments, key_digest
from justitia_api.resource import API_VERSION
from justitia_operator.decide.affected import affected
from justitia_operator.decide.reconcile import mistakes, reconcile, reconcile_all
from justitia_operator.world.objects import Json, Kind, Plan, Ref
from justitia_operator.world.snapshot import build_snapshot
from justitia_vocabulary.policies import PolicyName
from support.resources import (
    INSTALLATION,
    LATER,
    NOW,
    PEPPER,
    ROOT,
    application,
    applied,
    child,
    condition,
    config,
    key,
    keys,
    namespace,
    pod,
    pool,
    put,
    settled,
    small_world,
    tenant,
    with_ready_engines,
    without,
    world,
)

EXAMPLE = Path(__file__).parents[3] / "examples" / "llmapp.yaml"
POOL = Ref(Kind.SERVING_POOL, "apps", "shared")
OTHER_POOL = Ref(Kind.SERVING_POOL, "apps", "other")
CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")
KEY = "a-long-enough-token-of-alice"


def test_a_pool_is_a_deployment_with_what_it_needs() -> None:
    plan = reconcile(small_world(), POOL, NOW)
    assert [obj["kind"] for obj in plan.applies] == [
        "ServiceAccount",
        "ConfigMap",
        "Secret",
        "Service",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "Deployment",
    ]
    assert all(obj["metadata"]["ownerReferences"][0]["uid"] == "uid-ServingPool-shared" for obj in plan.applies)


def test_the_configuration_holds_tenants_with_weights_and_their_applications() -> None:
    tiers = [{"name": "gold", "weight": "4.5"}]
    snapshot = settled(
        world(
            tenant("alice", tier="gold", limits={"queuedRequests": 7}),
            tenant("bob", weight="2"),
            tenant("carol"),
            key("alice"),
            key("bob"),
            key("carol"),
            pool(scheduling={"policy": "VTC", "tiers": tiers, "queue": {"maximumRequests": 9, "timeoutSeconds": 8}}),
            application("a", "alice", run={"idleTimeoutSeconds": 5}, share={"weight": "2.5", "priority": -1}),
            application("b", "bob"),
            application("c", "carol"),
        )
    )
    found = config(snapshot)
    assert {(t.name, t.weight, t.tier) for t in found.tenants} == {
        ("alice", 4.5, "gold"),
        ("bob", 2.0, None),
        ("carol", 1.0, None),
    }
    assert found.tenants[0].limits.queued_requests == 7
    assert [(a.namespace, a.name, a.tenant) for a in found.applications] == [
        ("apps", "a", "alice"),
        ("apps", "b", "bob"),
        ("apps", "c", "carol"),
    ]
    assert [(a.weight, a.priority) for a in found.applications] == [(2.5, -1), (1.0, 0), (1.0, 0)]
    assert found.applications[0].run.idle_timeout_seconds == 5
    assert (found.scheduling.policy, found.model) == (PolicyName.VTC, "acme/model")
    assert (found.queue.maximum_requests, found.queue.timeout_seconds) == (9, 8)


def test_the_configuration_holds_the_bounds_of_gamma() -> None:
    scheduling: dict[str, Any] = {"policy": "UniBoost", "enforcement": "Engine"}
    without_bounds = config(settled(put(small_world(), pool(scheduling=scheduling))))
    assert (without_bounds.scheduling.policy, without_bounds.scheduling.boost) == (PolicyName.UNIBOOST, None)
    bounds = {"minimumGamma": "0.25", "maximumGamma": "4"}
    found = config(settled(put(small_world(), pool(scheduling=scheduling | {"boost": bounds}))))
    assert found.scheduling.boost == BoostConfig(minimum_gamma=0.25, maximum_gamma=4)


def test_the_key_table_holds_digests_and_never_keys() -> None:
    snapshot = settled(small_world())
    (entry,) = keys(snapshot).keys
    assert (entry.tenant, entry.digest) == ("alice", key_digest(PEPPER, b"a-long-enough-token-of-alice"))
    assert "a-long-enough-token-of-alice" not in str(snapshot.objects[Ref(Kind.SECRET, "apps", "justitia-shared")])


def test_the_secrets_of_two_pools_share_no_digest_pepper_or_credential() -> None:
    snapshot = settled(small_world(pool("other"), application("too", poolRef={"name": "other"})))
    one, other = (
        snapshot.objects[Ref(Kind.SECRET, "apps", f"justitia-{name}")]["data"] for name in ("shared", "other")
    )
    tables = [KeyTable.model_validate_json(b64decode(each["keys.json"])) for each in (one, other)]
    assert tables[0].pepper != tables[1].pepper
    assert not {e.digest for e in tables[0].keys} & {e.digest for e in tables[1].keys}
    assert all(table.keys for table in tables)
    assert not {value for name, value in one.items()} & {value for name, value in other.items()}
    assert ROOT not in str(tables)


def test_white_space_around_a_key_is_ignored() -> None:
    padded = settled(put(small_world(), key(token=KEY + "\n")))
    assert keys(padded).keys == keys(settled(small_world())).keys


def test_a_tenant_of_no_application_in_the_pool_has_no_key_there() -> None:
    snapshot = settled(small_world(tenant("stranger"), key("stranger")))
    assert {entry.tenant for entry in keys(snapshot).keys} == {"alice"}


def test_nothing_is_planned_when_nothing_changes_however_late_it_is() -> None:
    snapshot = settled(small_world(), NOW)
    assert not reconcile_all(snapshot, LATER)


def test_the_generation_stays_while_the_content_does_and_rises_when_it_changes() -> None:
    first = settled(small_world())
    assert config(first).generation == 1
    same = settled(put(first, pool(engine={"args": ["--max-model-len=99"]}) | {"status": {}}))
    assert config(same).generation == 1
    other = settled(put(same, tenant(weight="3")))
    assert (config(other).generation, config(other).tenants[0].weight) == (2, 3.0)


@pytest.mark.parametrize("damage", [None, {"pool.json": "{"}, {}], ids=["deleted", "spoilt", "emptied"])
def test_the_generation_never_goes_back_when_the_configuration_is_lost(damage: dict[str, str] | None) -> None:
    snapshot = settled(put(settled(small_world()), tenant(weight="3")))
    before = config(snapshot).generation
    reference = Ref(Kind.CONFIG_MAP, "apps", "justitia-shared")
    config_map = child(snapshot, Kind.CONFIG_MAP)
    broken = without(snapshot, reference) if damage is None else put(snapshot, config_map | {"data": damage})
    repaired = settled(broken)
    assert config(repaired).generation > before
    assert config(repaired).tenants == config(snapshot).tenants


@pytest.mark.parametrize(
    "kind", ["ServiceAccount", "ConfigMap", "Secret", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy"]
)
def test_a_lost_child_alone_is_made_again(kind: str) -> None:
    snapshot = without(settled(small_world()), Ref(Kind(kind), "apps", "justitia-shared"))
    assert kind in [obj["kind"] for obj in reconcile(snapshot, POOL, NOW).applies]


def test_a_changed_child_is_put_right_and_additions_are_left_alone() -> None:
    snapshot = settled(small_world())
    deployment = child(snapshot, Kind.DEPLOYMENT)
    scaled = put(snapshot, deployment | {"spec": deployment["spec"] | {"replicas": 5}})
    assert [obj["kind"] for obj in reconcile(scaled, POOL, NOW).applies] == ["Deployment"]
    metadata = deployment["metadata"] | {"labels": deployment["metadata"]["labels"] | {"cost-centre": "7"}}
    assert not reconcile(put(snapshot, deployment | {"metadata": metadata}), POOL, NOW)


def test_what_is_no_longer_wanted_is_applied_away() -> None:
    snapshot = settled(small_world(pool("other", engine={"nodeSelector": {"zone": "a"}})))
    plain = put(snapshot, pool("other") | {"status": snapshot.objects[OTHER_POOL]["status"]})
    assert [obj["kind"] for obj in reconcile(plain, OTHER_POOL, NOW).applies] == ["Deployment"]


def test_a_child_under_a_former_name_is_deleted() -> None:
    snapshot = settled(small_world())
    service = child(snapshot, Kind.SERVICE)
    former = service | {"metadata": service["metadata"] | {"name": "former"}}
    assert reconcile(put(snapshot, former), POOL, NOW).deletes == (Ref(Kind.SERVICE, "apps", "former"),)
    foreign = former | {"metadata": former["metadata"] | {"ownerReferences": []}}
    assert not reconcile(put(snapshot, foreign), POOL, NOW)


def test_a_resource_that_is_gone_or_going_is_left_to_garbage_collection() -> None:
    going = pool() | {"metadata": pool()["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert not reconcile(small_world(), Ref(Kind.SERVING_POOL, "apps", "none"), NOW)
    assert not reconcile(put(small_world(), going), POOL, NOW)


def test_a_rotated_key_replaces_the_old_one_and_is_a_new_generation() -> None:
    before = settled(small_world())
    after = settled(put(before, key(token="another-token-of-sufficient-length")))
    assert [e.digest for e in keys(after).keys] == [key_digest(PEPPER, b"another-token-of-sufficient-length")]
    assert config(after).generation == keys(after).generation == config(before).generation + 1


def test_readiness_follows_the_engines() -> None:
    cold = settled(small_world())
    assert condition(cold, Kind.SERVING_POOL, "shared", "Ready")[:2] == ("False", "NoneAvailable")
    assert "kubectl -n apps describe pods" in condition(cold, Kind.SERVING_POOL, "shared", "Ready")[2]
    assert condition(cold, Kind.LLM_APPLICATION, "chat", "Ready")[:2] == ("False", "PoolNotReady")
    warm = settled(with_ready_engines(cold))
    assert condition(warm, Kind.SERVING_POOL, "shared", "Ready")[:2] == ("True", "Serving")
    assert condition(warm, Kind.LLM_APPLICATION, "chat", "Ready")[:2] == ("True", "Serving")
    assert condition(warm, Kind.TENANT, "alice", "Ready")[:2] == ("True", "Serving")


def test_a_deployment_that_cannot_make_pods_says_why() -> None:
    cold = settled(small_world())
    failure = {"type": "ReplicaFailure", "status": "True", "message": "quota exceeded"}
    stuck = settled(put(cold, child(cold, Kind.DEPLOYMENT) | {"status": {"conditions": [failure]}}))
    assert "quota exceeded" in condition(stuck, Kind.SERVING_POOL, "shared", "EnginesAvailable")[2]


def test_several_replicas_admit_that_shares_hold_for_each_apart() -> None:
    snapshot = with_ready_engines(settled(small_world(pool("wide", replicas=2))), 1, "wide")
    snapshot = settled(with_ready_engines(snapshot))
    assert condition(snapshot, Kind.SERVING_POOL, "shared", "PoolFairness")[:2] == ("True", "SingleReplica")
    assert condition(snapshot, Kind.SERVING_POOL, "wide", "PoolFairness")[:2] == ("False", "PerReplica")
    assert condition(snapshot, Kind.SERVING_POOL, "wide", "EnginesAvailable")[:2] == ("True", "SomeAvailable")


def test_status_tells_where_to_send_requests_and_what_is_served() -> None:
    snapshot = settled(small_world())
    endpoint = "http://justitia-shared.apps.svc/applications/apps/chat/v1"
    assert snapshot.objects[CHAT]["status"]["endpoint"] == endpoint
    status = snapshot.objects[POOL]["status"]
    assert status["selector"] == "app.kubernetes.io/name=justitia-pool,justitia.dev/pool=shared"
    assert (status["configurationGeneration"], status["applications"]) == (1, 1)
    alice = snapshot.objects[Ref(Kind.TENANT, "", "alice")]["status"]
    assert (alice["applications"], alice["weights"]) == (1, [{"pool": "apps/shared", "weight": "1"}])


def test_a_transition_is_told_once_and_keeps_its_time() -> None:
    broken = settled(world(pool(), application()), NOW)
    mended = put(broken, tenant(), key())
    plan = reconcile(mended, CHAT, LATER)
    assert [(n.reason, n.type) for n in plan.events] == [("ResolvedRefs", "Normal"), ("PoolNotReady", "Normal")]
    stamps = {c["type"]: c["lastTransitionTime"] for c in plan.statuses[0].status["conditions"]}
    assert stamps == {
        "Accepted": "2026-01-02T03:04:05Z",
        "ResolvedRefs": "2026-01-02T04:04:05Z",
        "Ready": "2026-01-02T03:04:05Z",
    }
    assert not reconcile(applied(mended, plan), CHAT, LATER).events


def test_a_first_mistake_is_a_warning_and_a_first_success_is_silent() -> None:
    (note,) = reconcile(world(pool(), application()), CHAT, NOW).events
    assert (note.type, note.reason) == ("Warning", "TenantNotFound")
    assert reconcile(small_world(), CHAT, NOW).events == ()


def test_an_inline_pool_becomes_a_pool_of_the_application() -> None:
    inline = {"model": {"uri": "hf://a/b"}, "scheduling": {"tiers": [{"name": "gold", "weight": "4"}]}}
    snapshot = settled(world(tenant(tier="gold"), key(), application(pool=inline)))
    own = snapshot.objects[Ref(Kind.SERVING_POOL, "apps", "chat")]
    assert own["spec"] == inline
    assert own["metadata"]["ownerReferences"][0]["kind"] == "LLMApplication"
    assert config(snapshot, "chat").applications[0].name == "chat"
    assert condition(snapshot, Kind.LLM_APPLICATION, "chat", "Accepted")[0] == "True"
    warm = settled(with_ready_engines(snapshot, pool="chat"))
    assert condition(warm, Kind.LLM_APPLICATION, "chat", "Ready")[0] == "True"


def test_an_inline_pool_of_an_application_that_may_not_run_is_not_made() -> None:
    plan = reconcile(
        world(tenant(namespaces={"names": ["x"]}), application(pool={"model": {"uri": "hf://a/b"}})), CHAT, NOW
    )
    assert plan.applies == ()


def test_a_paused_pool_stays_as_it_is() -> None:
    running = settled(small_world())
    paused = pool(paused=True, replicas=4) | {"status": running.objects[POOL]["status"]}
    after = settled(put(running, paused, tenant(weight="5")))
    assert child(after, Kind.DEPLOYMENT) == child(running, Kind.DEPLOYMENT)
    assert config(after) == config(running)
    assert condition(after, Kind.SERVING_POOL, "shared", "Accepted")[:2] == ("True", "Paused")


@pytest.mark.parametrize("engine", [{}, {"args": ["--port=1"]}], ids=["accepted", "engine refused"])
@pytest.mark.parametrize("paused", [True, False], ids=["paused", "running"])
def test_what_is_taken_away_is_taken_away_whatever_else_stands_still(engine: Json, paused: bool) -> None:
    running = settled(put(small_world(), tenant(weight="2"), tenant("bob"), key("bob"), application("talk", "bob")))
    changed = pool(paused=paused, replicas=4, engine=engine, scheduling={"tiers": []})
    halted = put(running, changed | {"status": running.objects[POOL]["status"]})
    revoked = settled(without(halted, Ref(Kind.SECRET, "justitia-system", "alice-key")))
    forbidden = settled(put(halted, tenant(weight="2", namespaces={"names": ["other"]})))
    deleted = settled(without(halted, Ref(Kind.TENANT, "", "alice")))
    for after in (revoked, forbidden, deleted):
        assert [entry.tenant for entry in keys(after).keys] == ["bob"]
        assert config(after).generation == keys(after).generation == 2
        if paused or engine:
            assert child(after, Kind.DEPLOYMENT) == child(running, Kind.DEPLOYMENT)
    assert [tenant.name for tenant in config(forbidden).tenants] == ["bob"]


def test_the_pods_of_a_paused_pool_are_told() -> None:
    running = settled(small_world())
    paused = put(running, pool(paused=True) | {"status": running.objects[POOL]["status"]}, pod())
    (push,) = reconcile(without(paused, Ref(Kind.SECRET, "justitia-system", "alice-key")), POOL, NOW).pushes
    assert PoolDocuments.model_validate_json(push.documents).keys.keys == ()


def test_a_spoilt_key_table_of_a_paused_pool_is_put_right() -> None:
    running = settled(small_world())
    spoilt = child(running, Kind.SECRET) | {"data": {"keys.json": "e30="}}
    paused = put(running, pool(paused=True) | {"status": running.objects[POOL]["status"]}, spoilt)
    assert keys(settled(paused)) == keys(running)


def test_a_pool_that_was_paused_from_the_beginning_comes_to_rest() -> None:
    paused = settled(put(small_world(), pool(paused=True)))
    assert not reconcile(paused, POOL, NOW)
    assert paused.objects[POOL]["status"]["configurationGeneration"] == 0


def test_a_paused_application_keeps_its_entry_and_a_new_one_gets_none() -> None:
    running = settled(small_world())
    changed = application(paused=True, run={"idleTimeoutSeconds": 7}) | {"status": running.objects[CHAT]["status"]}
    after = settled(put(running, changed, application("new", paused=True)))
    assert config(after) == config(running)


def test_a_deleted_application_and_its_tenant_leave_the_configuration() -> None:
    after = settled(without(settled(small_world()), CHAT))
    assert (config(after).applications, config(after).tenants, keys(after).keys) == ((), (), ())


def test_the_example_has_no_mistakes_and_gives_one_pool_with_five_applications() -> None:
    snapshot = build_snapshot(yaml.safe_load_all(EXAMPLE.read_text()), INSTALLATION)
    plan = reconcile_all(snapshot, NOW)
    assert mistakes(plan) == ()
    after = applied(snapshot, plan)
    text = after.objects[Ref(Kind.CONFIG_MAP, "demo", "justitia-shared")]["data"]["pool.json"]
    found = type(config(settled(small_world()))).model_validate_json(text)
    assert {(t.name, t.weight) for t in found.tenants} == {("research", 1.0), ("batch", 2.0), ("support", 4.0)}
    assert len(found.applications) == 5


def test_documents_of_a_file_with_an_inline_pool_give_its_children_at_once() -> None:
    plan = reconcile_all(world(tenant(), key(), application(pool={"model": {"uri": "hf://a/b"}})), NOW)
    assert "Deployment" in [obj["kind"] for obj in plan.applies]


AFFECTED: list[Any] = [
    pytest.param(Ref(Kind.SECRET, "justitia-system", "alice-key"), id="a key Secret"),
    pytest.param(Ref(Kind.NAMESPACE, "", "apps"), id="the namespace"),
    pytest.param(Ref(Kind.TENANT, "", "alice"), id="the tenant"),
    pytest.param(CHAT, id="the application"),
    pytest.param(POOL, id="the pool"),
    pytest.param(Ref(Kind.DEPLOYMENT, "apps", "justitia-shared"), id="a child"),
    pytest.param(Ref(Kind.HTTP_ROUTE, "apps", "justitia-shared"), id="a child of another project's kind"),
]


@pytest.mark.parametrize("changed", AFFECTED)
def test_a_change_concerns_all_that_refers_to_it(changed: Ref) -> None:
    assert affected(small_world(), changed) == {POOL, CHAT, Ref(Kind.TENANT, "", "alice")}


def test_a_change_of_something_unrelated_concerns_nobody() -> None:
    snapshot = small_world()
    assert affected(snapshot, Ref(Kind.SECRET, "justitia-system", "other")) == frozenset()
    assert affected(snapshot, Ref(Kind.NAMESPACE, "", "other")) == frozenset()


def test_a_pool_nobody_uses_is_concerned_by_its_children() -> None:
    assert affected(world(pool()), Ref(Kind.SERVICE, "apps", "justitia-shared")) == {POOL}


def test_only_our_kinds_are_reconciled() -> None:
    with pytest.raises(ValueError, match="Namespace apps is not reconciled"):
        reconcile(world(namespace()), Ref(Kind.NAMESPACE, "", "apps"), NOW)


def test_an_empty_plan_is_false() -> None:
    assert not Plan()
    assert reconcile(small_world(), POOL, NOW)


def test_an_autoscaler_writes_the_pools_own_scale_and_goes_when_it_is_not_asked_for_any_more() -> None:
    scaling = {"minimumReplicas": 2, "maximumReplicas": 7, "queuedRequests": 30, "stabilizationSeconds": 60}
    scaled = settled(put(settled(small_world()), pool(autoscaling=scaling, replicas=4)))
    found = child(scaled, Kind.HORIZONTAL_POD_AUTOSCALER)["spec"]
    assert found["scaleTargetRef"] == {"apiVersion": API_VERSION, "kind": "ServingPool", "name": "shared"}
    assert (found["minReplicas"], found["maxReplicas"]) == (2, 7)
    (metric,) = found["metrics"]
    assert metric["pods"]["metric"] == {"name": "justitia_queued_requests"}
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": "30"}
    assert child(scaled, Kind.DEPLOYMENT)["spec"]["replicas"] == 4
    plan = reconcile(put(scaled, pool()), POOL, NOW)
    assert plan.deletes == (Ref(Kind.HORIZONTAL_POD_AUTOSCALER, "apps", "justitia-shared"),)


def test_a_deployment_that_is_withheld_is_not_taken_away() -> None:
    running = settled(small_world())
    assert not reconcile(put(running, pool(engine={"args": ["--port=1"]})), POOL, NOW).deletes
