"""The state of a pool's engines, from its Deployment and pods: how many serve, and what keeps others from starting.

Engines that span nodes are read from their pods alone: a LeaderWorkerSet is not watched.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from justitia_api.conditions import ConditionType, Reason
from justitia_api.pool import ServingPool
from justitia_operator.world.names import ENGINE_CONTAINER, child_ref, pool_ref
from justitia_operator.world.objects import ENGINE_KINDS, POOL_LABEL, Json, Kind, Ref, labels_of
from justitia_operator.world.snapshot import Snapshot
from justitia_operator.world.verdicts import Verdict

WORKER_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"
"""A label of the pods of a LeaderWorkerSet. The leader has 0."""

_NO_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
_NO_START = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"}


@dataclass(frozen=True)
class Obstacle:
    """Why an engine does not start."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class Engines:
    """How many engines exist, how many take requests, and what keeps others from starting."""

    existing: int
    ready: int
    obstacle: Obstacle | None = None


def observe_engines(world: Snapshot, pool: ServingPool) -> Engines:
    """Counts the pool's engines of both kinds of object: while one replaces the other, both exist."""
    counts = [count_engines(world, pool, kind) for kind in ENGINE_KINDS]
    obstacles = [*_of_pods(_pods_of(world, pool_ref(pool)), pool), *_of_deployment(_deployment_status(world, pool))]
    return Engines(sum(c.existing for c in counts), sum(c.ready for c in counts), next(iter(obstacles), None))


def count_engines(world: Snapshot, pool: ServingPool, kind: Kind) -> Engines:
    """Counts the engines that an object of this kind made."""
    if kind is Kind.DEPLOYMENT:
        status = _deployment_status(world, pool)
        return Engines(status.get("replicas", 0), status.get("readyReplicas", 0))
    leaders = [pod for pod in _pods_of(world, pool_ref(pool)) if labels_of(pod).get(WORKER_INDEX_LABEL) == "0"]
    return Engines(len(leaders), sum(map(_is_ready, leaders)))


def _deployment_status(world: Snapshot, pool: ServingPool) -> Json:
    return (world.get(child_ref(pool, Kind.DEPLOYMENT)) or {}).get("status") or {}


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)


def engines_verdict(world: Snapshot, pool: ServingPool, engines: Engines, now: datetime) -> Verdict:
    """The condition EnginesAvailable."""
    wanted, obstacle = pool.spec.replicas, engines.obstacle
    message = f"{engines.ready} of {wanted} engines take requests"
    if engines.ready >= wanted:
        if obstacle is None:
            return Verdict(ConditionType.ENGINES_AVAILABLE, True, Reason.ALL_AVAILABLE, message)
        message = f"{message}, but a replacement does not start"
    elif obstacle is None:
        obstacle = _progress(world, pool, now)
    if obstacle is None:
        look = f"kubectl -n {pool.metadata.namespace} describe pods -l {POOL_LABEL}={pool.metadata.name}"
        obstacle = Obstacle(Reason.SOME_AVAILABLE if engines.ready else Reason.NONE_AVAILABLE, f"see `{look}`")
    return Verdict(
        ConditionType.ENGINES_AVAILABLE, engines.ready > 0, obstacle.reason, f"{message}: {obstacle.message}"
    )


def starting(world: Snapshot, pool: Ref) -> dict[str, datetime]:
    """Start times of engines that still load their model, by the pod's name."""
    found = {}
    for pod in _pods_of(world, pool):
        for container in pod.get("status", {}).get("containerStatuses") or ():
            running = (container.get("state") or {}).get("running") or {}
            if container["name"] == ENGINE_CONTAINER and container.get("started") is False and "startedAt" in running:
                found[pod["metadata"]["name"]] = datetime.fromisoformat(running["startedAt"])
    return found


def _progress(world: Snapshot, pool: ServingPool, now: datetime) -> Obstacle | None:
    """Progress of the engine that has been starting longest, in whole minutes: a status must not change each second."""
    since = starting(world, pool_ref(pool))
    if not since:
        return None
    name = min(since, key=lambda each: (since[each], each))
    minutes = max(now - since[name], timedelta()) // timedelta(minutes=1)
    most = -(-pool.spec.engine.startup_seconds // 60)
    look = f"kubectl -n {pool.metadata.namespace} logs {name} -c {ENGINE_CONTAINER}"
    message = f"the engine of pod {name} has been starting for {minutes} of at most {most} minutes; see `{look}`"
    return Obstacle(Reason.ENGINE_STARTING, message)


def _of_deployment(status: Json) -> Iterator[Obstacle]:
    bad = {("ReplicaFailure", "True"), ("Progressing", "False")}
    for condition in status.get("conditions") or ():
        if (condition["type"], condition["status"]) in bad:
            yield Obstacle(Reason.ENGINE_NOT_STARTING, condition.get("message", ""))


def _pods_of(world: Snapshot, pool: Ref) -> list[Json]:
    every = (world.objects[ref] for ref in world.objects.referrers(pool, Kind.POD))
    return [pod for pod in every if not pod["metadata"].get("deletionTimestamp")]


def _of_pods(pods: Sequence[Json], pool: ServingPool) -> Iterator[Obstacle]:
    """Obstacles, worst first: a pod that is not scheduled, an image that cannot be pulled, a container that keeps
    exiting.
    """
    for pod in pods:
        yield from _without_place(pod, pool)
    for pod in pods:
        yield from _not_starting(pod, pool)


def _without_place(pod: Json, pool: ServingPool) -> Iterator[Obstacle]:
    for condition in pod.get("status", {}).get("conditions") or ():
        if (condition["type"], condition["status"]) != ("PodScheduled", "False"):
            continue
        message = condition.get("message", "no node fits")
        engine = pool.spec.engine
        missing = [
            name for name in sorted(engine.resources.limits) if "/" in name and f"Insufficient {name}" in message
        ]
        if missing:
            advice = "free some, or add nodes that have them"
            if engine.rollout == "Surge":
                advice += "; if there are none to spare for a rollout, set engine.rollout to Recreate"
            what = f"no node has enough free {', '.join(missing)} for pod {pod['metadata']['name']}"
            yield Obstacle(Reason.INSUFFICIENT_ACCELERATORS, f"{what}: {advice} ({message})")
        else:
            yield Obstacle(Reason.ENGINE_NOT_PLACED, f"no node for pod {pod['metadata']['name']}: {message}")


def _not_starting(pod: Json, pool: ServingPool) -> Iterator[Obstacle]:
    """A container that has exited does not count as started, between two attempts and during them, until it starts. One
    that has started and is not ready waits for something else, as a sidecar for its engine.
    """
    status, name = pod.get("status", {}), pod["metadata"]["name"]
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = container.get("state", {}).get("waiting") or {}
        where, why = f"container {container['name']} of pod {name}", waiting.get("reason")
        last = container.get("lastState", {}).get("terminated") or {}
        ended, started = last.get("exitCode"), container.get("started") or container.get("ready")
        if last.get("reason") == "OOMKilled" and not started:
            limit = pool.spec.engine.resources.limits.get("memory", "the node's")
            advice = "raise engine.resources.limits.memory, or configure it to use less memory"
            yield Obstacle(Reason.ENGINE_OUT_OF_MEMORY, f"{where} was OOM-killed (memory limit {limit}): {advice}")
        elif why in _NO_IMAGE:
            told = waiting.get("message", why)
            yield Obstacle(Reason.IMAGE_NOT_AVAILABLE, f"the image of {where} cannot be pulled: {told}")
        elif why in _NO_START or (ended and not started):
            told = waiting.get("message", why) if ended is None else f"it exits with code {ended}"
            look = f"kubectl -n {pod['metadata']['namespace']} logs {name} -c {container['name']} --previous"
            yield Obstacle(Reason.ENGINE_NOT_STARTING, f"{where} does not start: {told}; see `{look}`")
