"""Which sidecar image a pool's pods get. A new image alone restarts no engine."""

from dataclasses import replace

from justitia_api.pool import ServingPool
from justitia_operator.build.pods import build_pod
from justitia_operator.build.seal import content_hash
from justitia_operator.world.installation import Installation
from justitia_operator.world.names import SIDECAR_CONTAINER, child_ref, engines_kind
from justitia_operator.world.objects import POD_HASH_ANNOTATION, Json, Kind
from justitia_operator.world.snapshot import Snapshot


def installation_of(world: Snapshot, pool: ServingPool) -> Installation:
    """Returns the installation with the sidecar image that runs, as long as nothing but the image would change in the
    pods. An image that somebody else wrote does not count: it is corrected like every other field.
    """
    installation = world.installation
    engines = world.get(child_ref(pool, engines_kind(pool)))
    if engines is None or installation.sidecar_rollout == "AtOnce":
        return installation
    containers = _template_of(engines)["spec"].get("initContainers") or ()
    images = [container["image"] for container in containers if container["name"] == SIDECAR_CONTAINER]
    made_with = (engines["metadata"].get("annotations") or {}).get(POD_HASH_ANNOTATION)
    for image in images:
        if image == installation.sidecar_image:
            break
        with_it = replace(installation, sidecar_image=image)
        if content_hash(build_pod(pool, with_it)) == made_with:
            return with_it
    return installation


def _template_of(engines: Json) -> Json:
    """The template of the pod with the sidecar."""
    spec: Json = engines["spec"]
    template: Json = (
        spec["leaderWorkerTemplate"]["leaderTemplate"]
        if engines["kind"] == Kind.LEADER_WORKER_SET
        else spec["template"]
    )
    return template
