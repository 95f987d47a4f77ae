"""Engines that span nodes: what they are made of, how many serve, and how one kind of engine takes another's place."""

from dataclasses import replace
from typing import Any

import pytest

from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.names import pools_of_child
from justitia_operator.world.objects import Json, Kind, Plan, Ref
from justitia_operator.world.snapshot import Snapshot
from support.resources import (
    NOW,
    child,
    condition,
    config,
    pool,
    put,
    settled,
    small_world,
    with_ready_engines,
)

POOL = Ref(Kind.SERVING_POOL, "apps", "shared")
GROUPS = Ref(Kind.LEADER_WORKER_SET, "apps", "justitia--shared")
DEPLOYMENT = Ref(Kind.DEPLOYMENT, "apps", "justitia-shared")
LABELS = {"justitia.dev/pool": "shared", "app.kubernetes.io/managed-by": "justitia-operator"}


def spanning(nodes: int = 2, **spec: Any) -> Json:
    return pool(**spec | {"engine": {"nodes": nodes, **spec.get("engine", {})}})


def groups(**spec: Any) -> Json:
    found: Json = child(settled(put(small_world(), spanning(**spec))), Kind.LEADER_WORKER_SET)["spec"]
    return found


def pods_of(spec: Json) -> tuple[Json, Json]:
    """Specs of leader and worker."""
    template = spec["leaderWorkerTemplate"]
    return template["leaderTemplate"]["spec"], template["workerTemplate"]["spec"]


def member(group: int, index: int, *, ready: bool = True, **status: Any) -> Json:
    """A pod of a group; 0 is its leader."""
    name = f"justitia--shared-{group}" + (f"-{index}" if index else "")
    labels = LABELS | {"leaderworkerset.sigs.k8s.io/worker-index": str(index)}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "apps", "labels": labels},
        "status": {"conditions": conditions, **status},
    }


def plan_of(snapshot: Snapshot) -> Plan:
    return reconcile(snapshot, POOL, NOW)


def test_a_group_has_the_scheduler_in_its_leader_and_vllm_in_all_its_pods() -> None:
    spec = groups(nodes=3, replicas=2)
    leader, worker = pods_of(spec)
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (2, 3)
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    assert [c["name"] for c in leader["initContainers"] + leader["containers"]] == ["deliver", "sidecar", "engine"]
    assert [c["name"] for c in worker["containers"]] == ["worker"]
    assert [c["name"] for c in worker["initContainers"]] == ["deliver"]
    at_leader = ["--nnodes=3", "--master-addr=$(LWS_LEADER_ADDRESS)"]
    assert {"--node-rank=0", *at_leader} <= set(leader["containers"][0]["args"])
    (container,) = worker["containers"]
    assert container["args"][:4] == ["-m", "vllm.entrypoints.cli.main", "serve", "acme/model"]
    assert {"--headless", "--node-rank=$(LWS_WORKER_INDEX)", *at_leader} <= set(container["args"])


def test_only_leaders_are_the_services_and_no_part_listens_where_another_would_not_find_it() -> None:
    snapshot = settled(put(small_world(), spanning()))
    template = child(snapshot, Kind.LEADER_WORKER_SET)["spec"]["leaderWorkerTemplate"]
    leaders, workers = (template[f"{part}Template"]["metadata"]["labels"] for part in ("leader", "worker"))
    selector = child(snapshot, Kind.SERVICE)["spec"]["selector"]
    assert selector.items() <= leaders.items()
    assert not selector.items() <= workers.items()
    for kind, field in ((Kind.POD_DISRUPTION_BUDGET, "selector"), (Kind.NETWORK_POLICY, "podSelector")):
        both = child(snapshot, kind)["spec"][field]["matchLabels"]
        assert both.items() <= leaders.items() & workers.items()
    assert {"from": [{"podSelector": {"matchLabels": {"justitia.dev/pool": "shared"}}}]} in child(
        snapshot, Kind.NETWORK_POLICY
    )["spec"]["ingress"]
    for pod in pods_of({"leaderWorkerTemplate": template}):
        (container,) = pod["containers"]
        address = {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        assert address in container["env"]


def test_all_parts_of_an_engine_are_told_the_same_of_how_it_computes() -> None:
    args = ["--pipeline-parallel-size=2", "--max-model-len=512"]
    spec = groups(engine={"args": args}, scheduling={"enforcement": "Engine"})
    leader, worker = (pod["containers"][0] for pod in pods_of(spec))
    common = {*args, "--scheduling-policy=priority", "--scheduler-cls=justitia_engine.scheduler.JustitiaScheduler"}
    assert common <= set(leader["args"]) & set(worker["args"])
    delivered = [[c["name"] for c in pod["initContainers"]] for pod in pods_of(spec)]
    assert delivered == [["deliver", "sidecar"], ["deliver"]]
    assert "JUSTITIA_SOCKET" not in {variable["name"] for variable in worker["env"]}


@pytest.mark.parametrize(
    ("rollout", "how"),
    [("Surge", {"maxUnavailable": 0, "maxSurge": 1}), ("Recreate", {"maxUnavailable": "100%", "maxSurge": 0})],
)
def test_groups_come_and_go_as_single_engines_do(rollout: str, how: Json) -> None:
    strategy = groups(engine={"rollout": rollout})["rolloutStrategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdateConfiguration": how}


def test_engines_are_kept_apart_by_their_leaders() -> None:
    leader, worker = pods_of(groups(engine={"topologySpread": [{"topologyKey": "zone"}], "nodeSelector": {"gpu": "h"}}))
    (constraint,) = leader["topologySpreadConstraints"]
    assert constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/name"] == "justitia-pool"
    assert constraint["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/template-revision-hash"]
    assert "topologySpreadConstraints" not in worker
    assert leader["nodeSelector"] == worker["nodeSelector"] == {"gpu": "h"}


def test_engines_are_counted_by_leaders_that_are_ready() -> None:
    snapshot = settled(put(small_world(), spanning(replicas=2)))
    seen = put(snapshot, member(0, 0), member(0, 1), member(1, 0, ready=False), member(1, 1))
    status = settled(seen).objects[POOL]["status"]
    assert (status["replicas"], status["readyReplicas"]) == (2, 1)
    holds, reason, message = condition(settled(seen), Kind.SERVING_POOL, "shared", "EnginesAvailable")
    assert (holds, reason) == ("True", "SomeAvailable")
    assert message.startswith("1 of 2 engines take requests")
    assert condition(settled(seen), Kind.LLM_APPLICATION, "chat", "Ready")[:2] == ("True", "Serving")


def test_a_worker_that_does_not_start_is_named() -> None:
    waiting = {"name": "worker", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    snapshot = settled(put(small_world(), spanning()))
    seen = settled(put(snapshot, member(0, 0, ready=False), member(0, 1, ready=False, containerStatuses=[waiting])))
    _, reason, message = condition(seen, Kind.SERVING_POOL, "shared", "EnginesAvailable")
    assert reason == "ImageNotAvailable"
    assert "container worker of pod justitia--shared-0-1" in message


@pytest.mark.parametrize("argument", ["--nnodes=2", "--node_rank", "--master-addr=x", "--master-port=1", "-n", "-r=1"])
def test_who_wants_several_nodes_is_told_how(argument: str) -> None:
    snapshot = settled(put(small_world(), pool(engine={"args": [argument]})))
    _, reason, message = condition(snapshot, Kind.SERVING_POOL, "shared", "Accepted")
    assert reason == "EngineArgumentRefused"
    assert "set spec.engine.nodes" in message


def test_a_groups_name_is_no_other_objects() -> None:
    """Its Service has it too, so another pool's must not."""
    assert pools_of_child(GROUPS) == {POOL}
    assert pools_of_child(DEPLOYMENT) == {POOL}
    assert pools_of_child(Ref(Kind.SERVICE, "apps", GROUPS.name)) == {Ref(Kind.SERVING_POOL, "apps", "-shared")}


def test_a_new_sidecar_image_restarts_no_group() -> None:
    before = settled(put(small_world(), spanning()))
    after = settled(replace(before, installation=replace(before.installation, sidecar_image="justitia:next")))
    assert child(after, Kind.LEADER_WORKER_SET) == child(before, Kind.LEADER_WORKER_SET)


def test_single_engines_stay_until_as_many_groups_serve() -> None:
    running = with_ready_engines(settled(put(small_world(), pool(replicas=2))), 2)
    changed = settled(put(running, spanning(replicas=2)))
    assert {GROUPS, DEPLOYMENT} <= changed.objects.keys()
    one = put(changed, member(0, 0), member(0, 1))
    assert not plan_of(one).deletes
    assert settled(one).objects[POOL]["status"]["readyReplicas"] == 3
    both = put(one, member(1, 0), member(1, 1))
    assert plan_of(both).deletes == (DEPLOYMENT,)


def test_groups_stay_until_as_many_single_engines_serve() -> None:
    running = put(settled(put(small_world(), spanning())), member(0, 0), member(0, 1))
    changed = settled(put(running, pool()))
    assert {GROUPS, DEPLOYMENT} <= changed.objects.keys()
    assert plan_of(with_ready_engines(changed)).deletes == (GROUPS,)


def test_where_none_can_be_spare_the_old_engines_go_first() -> None:
    running = with_ready_engines(settled(put(small_world(), pool(engine={"rollout": "Recreate"}))))
    plan = plan_of(put(running, spanning(engine={"rollout": "Recreate"})))
    assert plan.deletes == (DEPLOYMENT,)
    assert "LeaderWorkerSet" in {obj["kind"] for obj in plan.applies}


@pytest.mark.parametrize("rollout", ["Surge", "Recreate"])
def test_a_cluster_without_groups_keeps_the_engines_that_it_has_and_is_told_what_to_install(rollout: str) -> None:
    engine = {"rollout": rollout}
    running = with_ready_engines(settled(put(small_world(), pool(engine=engine))))
    lacking = replace(running, installed=running.installed - {Kind.LEADER_WORKER_SET})
    after = settled(put(lacking, spanning(engine=engine)))
    assert DEPLOYMENT in after.objects
    assert GROUPS not in after.objects
    _, reason, message = condition(after, Kind.SERVING_POOL, "shared", "ResolvedRefs")
    assert reason == "KindNotInstalled"
    assert "install LeaderWorkerSet" in message
    assert config(after).applications


def test_what_is_refused_of_the_engine_changes_no_engine() -> None:
    running = put(settled(put(small_world(), spanning())), member(0, 0), member(0, 1))
    edited = settled(put(running, spanning(nodes=4, engine={"args": ["--port=1"]})))
    assert child(edited, Kind.LEADER_WORKER_SET) == child(running, Kind.LEADER_WORKER_SET)
