"""Which sidecar image a pool's pods have: a new one restarts no engine that is not changed otherwise."""

from dataclasses import replace

from justitia_api.pool import ServingPool
from justitia_operator.build.pods import build_pod
from justitia_operator.build.seal import content_hash
from justitia_operator.world.installation import Installation
from justitia_operator.world.names import SCHEDULER_CONTAINER, child_ref, engines_kind
from justitia_operator.world.objects import POD_HASH_ANNOTATION, Json, Kind
from justitia_operator.world.snapshot import Snapshot


def installation_of(world: Snapshot, pool: ServingPool) -> Installation:
    """The installation, with the sidecar image that runs as long as the pods were made with it and are to be as they
    are. An image that somebody else wrote there was not: it is put right like everything.
    """
    installation = world.installation
    engines = world.get(child_ref(pool, engines_kind(pool)))
    if engines is None or installation.sidecar_rollout == "AtOnce":
        return installation
    containers = _template_of(engines)["spec"].get("initContainers") or ()
    images = [container["image"] for container in containers if container["name"] == SCHEDULER_CONTAINER]
    made_with = (engines["metadata"].get("annotations") or {}).get(POD_HASH_ANNOTATION)
    for image in images:
        if image == installation.sidecar_image:
            break
        with_it = replace(installation, sidecar_image=image)
        if content_hash(build_pod(pool, with_it)) == made_with:
            return with_it
    return installation


def _template_of(engines: Json) -> Json:
    """Of the pod with the scheduler."""
    spec: Json = engines["spec"]
    template: Json = (
        spec["leaderWorkerTemplate"]["leaderTemplate"]
        if engines["kind"] == Kind.LEADER_WORKER_SET
        else spec["template"]
    )
    return template
