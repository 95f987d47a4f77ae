"""What the pool's condition EnginesAvailable says of pods that do not come."""

from datetime import timedelta

import pytest

from justitia_api.pool import ServingPool
from justitia_operator.decide.affected import affected
from justitia_operator.decide.engines import Engines, count_engines
from justitia_operator.world.objects import Json, Kind, Ref
from support.resources import (
    NOW,
    application,
    child,
    condition,
    key,
    pool,
    put,
    settled,
    tenant,
    with_ready_engines,
    world,
)

GPU: Json = {"resources": {"limits": {"nvidia.com/gpu": 1}}}


def pod(name: str = "justitia-shared-7", of: str = "shared", **status: object) -> Json:
    labels = {"justitia.dev/pool": of, "app.kubernetes.io/managed-by": "justitia-operator"}
    metadata = {"name": name, "namespace": "apps", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


def not_scheduled(message: str | None) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    other = {"type": "DisruptionTarget", "status": "False"}
    return pod(conditions=[other, condition if message is None else condition | {"message": message}])


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
    assert "free some, or add nodes that have them; if there are none to spare" in message
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


def test_a_pod_that_finds_no_node_says_so_without_a_word_from_the_scheduler() -> None:
    assert available(not_scheduled(None), ready=0)[2].endswith("no node for pod justitia-shared-7: no node fits")


@pytest.mark.parametrize("why", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"])
def test_a_bad_image_leaves_the_old_engine(why: str) -> None:
    holds, reason, message = available(waiting("engine", why, "nothing at example.com/no"), ready=1)
    assert (holds, reason) == ("True", "ImageNotAvailable")
    assert "1 of 1 engines take requests" in message
    assert "example.com/no" in message


def test_an_engine_that_ends_again_and_again_leads_to_its_log() -> None:
    holds, reason, message = available(waiting("engine", "CrashLoopBackOff", "back-off 40s", code=2), ready=1)
    assert (holds, reason) == ("True", "EngineNotStarting")
    assert "exits with code 2" in message
    assert "kubectl -n apps logs justitia-shared-7 -c engine --previous" in message


def test_an_engine_that_ended_and_is_tried_again_is_told_of_alike_until_it_is_ready() -> None:
    between = available(waiting("engine", "CrashLoopBackOff", "back-off 40s", code=2), ready=1)
    status: Json = {"name": "engine", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 2}}}
    assert available(pod(containerStatuses=[status | {"ready": False}]), ready=1) == between
    assert available(pod(containerStatuses=[status | {"ready": True}]), ready=1)[1] == "AllAvailable"


def test_an_engine_that_ended_for_its_memory_says_what_to_raise() -> None:
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    status: Json = {"name": "engine", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": last}
    limits = {"limits": {"memory": "6Gi"}}
    holds, reason, message = available(pod(containerStatuses=[status]), ready=0, resources=limits)
    assert (holds, reason) == ("False", "EngineOutOfMemory")
    assert "limit 6Gi" in message
    assert "raise engine.resources.limits.memory" in message


def test_an_engine_without_a_limit_that_ended_for_its_memory_had_that_of_the_node() -> None:
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    seen = pod(containerStatuses=[{"name": "engine", "lastState": last}])
    assert "(memory limit the node's)" in available(seen, ready=0)[2]


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("ErrImagePull", "cannot be pulled: ErrImagePull"),
        ("CreateContainerError", "does not start: CreateContainerError"),
    ],
)
def test_a_container_that_waits_without_a_message_has_its_reason_told(why: str, told: str) -> None:
    seen = pod(containerStatuses=[{"name": "engine", "state": {"waiting": {"reason": why}}}])
    assert told in available(seen, ready=0)[2]


def starting(seconds: float, started: bool = False) -> Json:
    since = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return pod(
        containerStatuses=[
            {"name": "engine", "ready": started, "started": started, "state": {"running": {"startedAt": since}}}
        ]
    )


@pytest.mark.parametrize(("seconds", "told"), [(-5, "0 of at most 2"), (59, "0 of"), (60, "1 of"), (185, "3 of")])
def test_an_engine_that_starts_tells_for_how_many_minutes(seconds: float, told: str) -> None:
    holds, reason, message = available(starting(seconds), ready=0, startupSeconds=61)
    assert (holds, reason) == ("False", "EngineStarting")
    assert f"justitia-shared-7 has been starting for {told}" in message
    assert "kubectl -n apps logs justitia-shared-7 -c engine" in message


def test_an_engine_that_has_started_and_one_beside_enough_others_tell_no_progress() -> None:
    assert available(starting(90, started=True), ready=0)[1] == "NoneAvailable"
    assert available(starting(90), ready=1)[1] == "AllAvailable"


def test_an_application_does_not_count_the_minutes_of_its_pools_engine() -> None:
    begun = world(tenant(), key(), pool(), application())
    early, late = (settled(put(begun, starting(seconds))) for seconds in (30, 300))
    for name, kind, type_ in (
        ("shared", Kind.SERVING_POOL, "EnginesAvailable"),
        ("chat", Kind.LLM_APPLICATION, "Ready"),
    ):
        alike = condition(early, kind, name, type_) == condition(late, kind, name, type_)
        assert alike == (kind is Kind.LLM_APPLICATION)


def test_a_scheduler_that_was_started_anew_and_waits_for_its_engine_is_not_to_blame() -> None:
    status: Json = {"name": "sidecar", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 137}}}
    waits = status | {"ready": False, "started": True}
    assert available(pod(initContainerStatuses=[waits]), ready=0)[1] == "NoneAvailable"
    assert available(pod(initContainerStatuses=[status | {"started": False}]), ready=0)[1] == "EngineNotStarting"


def test_a_secret_that_is_missing_is_named() -> None:
    seen = waiting("engine", "CreateContainerConfigError", 'secret "hf" not found')
    assert 'secret "hf" not found' in available(seen, ready=0)[2]


def test_what_goes_or_belongs_to_others_is_no_obstacle() -> None:
    going = waiting("engine", "ImagePullBackOff")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    other = waiting("engine", "ImagePullBackOff")
    other["metadata"]["labels"]["justitia.dev/pool"] = "other"
    starting = pod(containerStatuses=[{"name": "engine", "state": {"running": {}}}])
    new = pod(containerStatuses=[{"name": "engine"}])
    for seen in (going, other, starting, new):
        assert available(seen, ready=1)[:2] == ("True", "AllAvailable")


def test_a_pod_concerns_its_pool_and_whom_that_serves() -> None:
    seen = put(settled(world(tenant(), key(), pool(), application())), pod())
    found = affected(seen, Ref(Kind.POD, "apps", "justitia-shared-7"))
    assert found == {
        Ref(Kind.SERVING_POOL, "apps", "shared"),
        Ref(Kind.LLM_APPLICATION, "apps", "chat"),
        Ref(Kind.TENANT, "", "alice"),
    }


def test_engines_that_exist_and_those_that_serve_are_counted() -> None:
    snapshot = settled(world(tenant(), key(), pool(replicas=3), application()))
    deployment = child(snapshot, Kind.DEPLOYMENT)
    shared = ServingPool.model_validate(pool(replicas=3))
    assert count_engines(snapshot, shared, Kind.DEPLOYMENT) == Engines(existing=0, ready=0)
    started = put(snapshot, deployment | {"status": {"replicas": 3, "readyReplicas": 1}})
    assert count_engines(started, shared, Kind.DEPLOYMENT) == Engines(existing=3, ready=1)


def test_of_several_engines_that_start_the_first_to_have_begun_is_told_of() -> None:
    def begun(name: str, minutes: int) -> Json:
        since = (NOW - timedelta(minutes=minutes)).isoformat()
        state = {"name": "engine", "started": False, "state": {"running": {"startedAt": since}}}
        return pod(name, containerStatuses=[state])

    snapshot = put(settled(world(tenant(), key(), pool(replicas=3), application())), begun("a", 2), begun("b", 5))
    snapshot = settled(put(snapshot, begun("c", 5)))
    message = condition(snapshot, Kind.SERVING_POOL, "shared", "EnginesAvailable")[2]
    assert "the engine of pod b has been starting for 5 of at most" in message


def test_a_deployment_that_fails_without_a_word_is_told_of_without_one() -> None:
    snapshot = settled(world(tenant(), key(), pool(), application()))
    failure = {"conditions": [{"type": "ReplicaFailure", "status": "True"}]}
    stuck = settled(put(snapshot, child(snapshot, Kind.DEPLOYMENT) | {"status": failure}))
    assert condition(stuck, Kind.SERVING_POOL, "shared", "EnginesAvailable") == (
        "False",
        "EngineNotStarting",
        "0 of 1 engines take requests: ",
    )
