"""Engines that span nodes, with the real controller of their groups of pods. The kubelet's part is this test's."""

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.control_plane import ControlPlane
from cluster.lws import running_lws
from justitia_api.pool import ServingPool
from justitia_operator.build.builders import build_leader_worker_set
from justitia_operator.decide.compare import needs_apply
from justitia_operator.world.installation import Installation
from support.kubectl import Json, eventually
from support.stage import Stage

SPANNING = {"engine": {"nodes": 2}}
LEADER, WORKER = "justitia--shared-0", "justitia--shared-0-1"
READY = [{"type": "Ready", "status": "True"}]


@pytest.fixture
def installed(control_plane: ControlPlane) -> Iterator[None]:
    with running_lws(control_plane):
        yield


def exists(stage: Stage, kind: str, name: str) -> bool:
    return stage.kubectl.exists(kind, name, stage.namespace)


def pod(stage: Stage, name: str) -> dict[str, Any]:
    found: dict[str, Any] = stage.kubectl.get("pod", name, stage.namespace)
    return found


def report_ready(stage: Stage, *pods: str) -> None:
    for name in pods:
        eventually(lambda name=name: exists(stage, "pod", name))  # type: ignore[misc]
        stage.report(name, phase="Running", conditions=READY)


def as_built(stage: Stage, stored: Json) -> Json:
    """What the operator asks for, with the sidecar image of what is stored."""
    leader = stored["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]
    (image,) = {container["image"] for container in leader["initContainers"]}
    seen = stage.kubectl.get("spool", "shared", stage.namespace)
    pool = ServingPool.model_validate({key: value for key, value in seen.items() if key != "status"})
    return build_leader_worker_set(pool, Installation(stage.system, image, root=""))


def ready_engines(stage: Stage) -> int | None:
    status: dict[str, Any] = stage.kubectl.get("spool", "shared", stage.namespace)["status"]
    return status.get("readyReplicas")


def test_without_groups_the_engines_stay_and_the_pool_says_what_to_install(stage: Stage) -> None:
    stage.act_as_kubelet()
    stage.set(pool=SPANNING)
    eventually(lambda: stage.condition("spool", "shared", "ResolvedRefs") == ("False", "KindNotInstalled"))
    assert exists(stage, "deployment", "justitia-shared")
    assert stage.condition("spool", "shared", "Ready") == ("True", "Serving")


@pytest.mark.usefixtures("installed")
def test_groups_take_the_place_of_single_engines_and_the_other_way_round(stage: Stage) -> None:
    deployment = stage.child("deployment")["metadata"]["uid"]
    stage.act_as_kubelet()
    eventually(lambda: ready_engines(stage) == 1)

    stage.set(pool=SPANNING)
    leader = eventually(lambda: pod(stage, LEADER))
    worker = eventually(lambda: pod(stage, WORKER))
    service = stage.child("service")["spec"]["selector"]
    assert service.items() <= leader["metadata"]["labels"].items()
    assert not service.items() <= worker["metadata"]["labels"].items()
    for container in (leader["spec"]["containers"][0], worker["spec"]["containers"][0]):
        given = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert given["LWS_LEADER_ADDRESS"] == f"{LEADER}.justitia--shared.{stage.namespace}"
    assert exists(stage, "service", "justitia--shared")
    assert stage.child("deployment")["metadata"]["uid"] == deployment

    report_ready(stage, LEADER, WORKER)
    eventually(lambda: not exists(stage, "deployment", "justitia-shared"))
    eventually(lambda: ready_engines(stage) == 1)
    assert stage.condition("spool", "shared", "Ready") == ("True", "Serving")

    stage.set()
    eventually(lambda: exists(stage, "deployment", "justitia-shared"))
    assert exists(stage, "leaderworkerset", "justitia--shared")
    singles = eventually(lambda: [name for name in stage.pods() if "--" not in name])
    report_ready(stage, *singles)
    eventually(lambda: not exists(stage, "leaderworkerset", "justitia--shared"))


@pytest.mark.usefixtures("installed")
def test_a_changed_group_serves_before_the_last_one_goes(stage: Stage) -> None:
    stage.set(pool=SPANNING)
    report_ready(stage, LEADER, WORKER)
    eventually(lambda: ready_engines(stage) == 1)
    before = pod(stage, LEADER)["metadata"]["uid"]

    stored = stage.kubectl.get_owned("leaderworkerset", "justitia--shared", stage.namespace)
    assert not needs_apply(as_built(stage, stored), stored), "what the webhooks make of it is taken for drift"

    stage.set(pool={"engine": {"nodes": 2, "args": ["--max-model-len=512"]}})
    eventually(lambda: exists(stage, "pod", "justitia--shared-1"))
    assert pod(stage, LEADER)["metadata"]["uid"] == before
    report_ready(stage, "justitia--shared-1", "justitia--shared-1-1")
    changed = eventually(lambda: (found := pod(stage, LEADER))["metadata"]["uid"] != before and found)
    assert "--max-model-len=512" in changed["spec"]["containers"][0]["args"]
