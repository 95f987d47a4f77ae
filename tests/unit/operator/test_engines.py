"""What the pool's condition EnginesAvailable says of pods that do not come."""

import pytest

from justitia_operator.objects import Json, Kind, Ref
from justitia_operator.reconcile import affected
from support.resources import application, condition, key, pool, put, settled, tenant, with_ready_engines, world

GPU: Json = {"resources": {"limits": {"nvidia.com/gpu": 1}}}


def pod(name: str = "justitia-shared-7", of: str = "shared", **status: object) -> Json:
    labels = {"justitia.dev/pool": of, "app.kubernetes.io/managed-by": "justitia-operator"}
    metadata = {"name": name, "namespace": "apps", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


def not_scheduled(message: str) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(conditions=[condition])


def waiting(container: str, reason: str, message: str = "", code: int | None = None) -> Json:
    status: Json = {"name": container, "state": {"waiting": {"reason": reason, "message": message}}}
    if code is not None:
        status["lastState"] = {"terminated": {"exitCode": code}}
    return pod(containerStatuses=[status])


def available(seen: Json, ready: int, **spec: object) -> tuple[str, str, str]:
    """The condition where so many engines of one serve, and this pod was seen beside them."""
    shared = pool(engine=GPU | spec)
    running = with_ready_engines(settled(world(tenant(), key(), shared, application())), ready)
    return condition(settled(put(running, seen)), Kind.SERVING_POOL, "shared", "EnginesAvailable")


NO_GPU = "0/3 nodes are available: 1 node(s) had untolerated taint, 2 Insufficient nvidia.com/gpu."


def test_a_rollout_without_a_spare_accelerator_leaves_the_old_engine_and_says_what_to_do() -> None:
    holds, reason, message = available(not_scheduled(NO_GPU), ready=1)
    assert (holds, reason) == ("True", "InsufficientAccelerators")
    assert "nvidia.com/gpu" in message
    assert "engine.rollout to Recreate" in message


def test_a_first_engine_without_an_accelerator_is_told_to_wait_for_one() -> None:
    holds, reason, message = available(not_scheduled(NO_GPU), ready=0, rollout="Recreate")
    assert (holds, reason) == ("False", "InsufficientAccelerators")
    assert "add nodes" in message
    assert "engine.rollout" not in message


def test_a_pod_that_finds_no_node_for_another_reason_has_the_schedulers_words() -> None:
    holds, reason, message = available(not_scheduled("0/3 nodes are available: 3 Insufficient memory."), ready=0)
    assert (holds, reason) == ("False", "EngineNotPlaced")
    assert "3 Insufficient memory" in message


@pytest.mark.parametrize("why", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_a_bad_image_leaves_the_old_engine(why: str) -> None:
    holds, reason, message = available(waiting("engine", why, "nothing at example.com/no"), ready=1)
    assert (holds, reason) == ("True", "ImageNotAvailable")
    assert "1 of 1 engines take requests" in message
    assert "example.com/no" in message


def test_an_engine_that_ends_again_and_again_leads_to_its_log() -> None:
    holds, reason, message = available(waiting("engine", "CrashLoopBackOff", "back-off 40s", code=2), ready=1)
    assert (holds, reason) == ("True", "EngineNotStarting")
    assert "ends with code 2" in message
    assert "kubectl -n apps logs justitia-shared-7 -c engine --previous" in message


def test_an_engine_that_ended_and_is_tried_again_is_told_of_alike_until_it_is_ready() -> None:
    between = available(waiting("engine", "CrashLoopBackOff", "back-off 40s", code=2), ready=1)
    status: Json = {"name": "engine", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 2}}}
    assert available(pod(containerStatuses=[status | {"ready": False}]), ready=1) == between
    assert available(pod(containerStatuses=[status | {"ready": True}]), ready=1)[1] == "AllAvailable"


def test_a_secret_that_is_missing_is_named() -> None:
    seen = waiting("engine", "CreateContainerConfigError", 'secret "hf" not found')
    assert 'secret "hf" not found' in available(seen, ready=0)[2]


def test_what_goes_or_belongs_to_others_is_no_obstacle() -> None:
    going = waiting("engine", "ImagePullBackOff")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    other = waiting("engine", "ImagePullBackOff")
    other["metadata"]["labels"]["justitia.dev/pool"] = "other"
    starting = pod(containerStatuses=[{"name": "engine", "state": {"running": {}}}])
    for seen in (going, other, starting):
        assert available(seen, ready=1)[:2] == ("True", "AllAvailable")


def test_a_pod_concerns_its_pool_and_whom_that_serves() -> None:
    seen = put(settled(world(tenant(), key(), pool(), application())), pod())
    found = affected(seen, Ref(Kind.POD, "apps", "justitia-shared-7"))
    assert found == {
        Ref(Kind.SERVING_POOL, "apps", "shared"),
        Ref(Kind.LLM_APPLICATION, "apps", "chat"),
        Ref(Kind.TENANT, "", "alice"),
    }
