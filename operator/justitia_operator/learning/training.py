"""The Job that trains an application's predictor, and its outcome.

It runs in the pool's namespace, where the store is, and the pool owns it. Its only output is the container's
termination message, so that nobody needs a right to read logs.
"""

from datetime import datetime
from enum import Enum
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from justitia_api.application import LLMApplication
from justitia_api.config import Digest
from justitia_api.learning import ArtifactStore
from justitia_api.pool import ServingPool
from justitia_api.status import Count
from justitia_operator.build.artifact_store import store_environment, store_mounts, store_url, store_volumes
from justitia_operator.build.builders import owned_by_pool
from justitia_operator.build.pods import restricted, restricted_pod
from justitia_operator.build.seal import sealed
from justitia_operator.learning.learned import name_in_store
from justitia_operator.learning.rollout import Outcome
from justitia_operator.world.installation import Installation
from justitia_operator.world.names import application_ref, children_name
from justitia_operator.world.objects import (
    APPLICATION_ANNOTATION,
    MANAGED_BY_LABEL,
    MANAGER,
    Json,
    Kind,
    Ref,
    is_controlled_by,
    ref_of,
)
from justitia_operator.world.snapshot import Snapshot

CONTAINER = "train"
LONGEST_SECONDS = 1800
KEPT_SECONDS = 86_400
"""How long a finished Job is kept, for people who want to look at it."""
ATTEMPTS = 2


class Unfinished(Enum):
    """The state of a Job without an outcome."""

    RUNNING = "Running"


def training_ref(application: LLMApplication) -> Ref:
    return Ref(Kind.JOB, application.pool_namespace, f"justitia-train-{application.metadata.uid}")


def build_training(
    application: LLMApplication, pool: ServingPool, store: ArtifactStore, installation: Installation
) -> Json:
    """Builds the Job, sealed. Its pods do not have the pool's label: they are no engines."""
    ref = training_ref(application)
    metadata = {
        "labels": {"app.kubernetes.io/name": "justitia-training", MANAGED_BY_LABEL: MANAGER},
        "annotations": {APPLICATION_ANNOTATION: f"{application.metadata.namespace}/{application.metadata.name}"},
    }
    command = ["python", "-m", "justitia_predictor", "train", "--store", store_url(pool, store)]
    command += ["--application", name_in_store(application.metadata), "--report", "/dev/termination-log"]
    container = {
        "name": CONTAINER,
        "image": installation.sidecar_image,
        "command": command,
        "env": [{"name": "OPENBLAS_NUM_THREADS", "value": "1"}, *store_environment(store)],
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": restricted() | {"readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *store_mounts(store)],
    }
    pod = {
        "serviceAccountName": children_name(pool.metadata.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": restricted_pod(),
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *store_volumes(store)],
    }
    secrets = [{"name": secret.name} for secret in pool.spec.engine.image_pull_secrets]
    spec = {
        "backoffLimit": ATTEMPTS - 1,
        "activeDeadlineSeconds": LONGEST_SECONDS,
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": {"metadata": metadata, "spec": pod | ({"imagePullSecrets": secrets} if secrets else {})},
    }
    owner = {"ownerReferences": [owned_by_pool(pool)]}
    return sealed(
        {
            "apiVersion": Kind.JOB.api_version,
            "kind": str(Kind.JOB),
            "metadata": {"name": ref.name, "namespace": ref.namespace, **metadata, **owner},
            "spec": spec,
        }
    )


def outcome_of(world: Snapshot, application: LLMApplication) -> Outcome | Unfinished | None:
    """Returns the outcome of the application's Job. None if there is no Job."""
    job = world.get(training_ref(application))
    if job is None or job["metadata"].get("deletionTimestamp"):
        return None
    conditions = {c["type"] for c in (job.get("status") or {}).get("conditions") or () if c["status"] == "True"}
    if not conditions & {"Complete", "Failed"}:
        return Unfinished.RUNNING
    begun = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    pods = (world.objects[ref] for ref in world.objects.referrers(application_ref(application), Kind.POD))
    ended = [end for pod in pods if is_controlled_by(pod, job) and (end := _end_of(pod)) is not None]
    last = max(ended, key=lambda end: str(end.get("finishedAt")), default=None)
    if "Complete" in conditions:
        # Watches are not ordered: the end of the pod may be seen after that of the Job.
        return Unfinished.RUNNING if last is None else _read(begun, last)
    where = f"kubectl logs -n {ref_of(job).namespace} job/{ref_of(job).name}"
    return Outcome(begun, problem=f"{_problem(last)}; the operator tries again in an hour; see {where}")


def _end_of(pod: Json) -> Json | None:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        if container["name"] == CONTAINER:
            ended: Json | None = (container.get("state") or {}).get("terminated")
            return ended
    return None


class _Trained(BaseModel):
    """A termination message. Whoever may make pods in the namespace can write anything into one."""

    version: Digest
    kind: Annotated[str, Field(max_length=64)]
    samples: Count


class _Failed(BaseModel):
    error: Annotated[str, Field(min_length=1)]


def _read(begun: datetime, end: Json) -> Outcome:
    try:
        told = _Trained.model_validate_json(end.get("message") or "")
    except ValidationError:
        return Outcome(
            begun, problem="the training wrote no result that this version understands: check the version of its image"
        )
    return Outcome(begun, told.samples, told.version, told.kind)


def _problem(end: Json | None) -> str:
    if end is None:
        return f"the training did not end within {LONGEST_SECONDS // 60} minutes, or could not be started"
    try:
        return _Failed.model_validate_json(end.get("message") or "").error[:500]
    except ValidationError:
        return f"the training ended with {end.get('reason')} ({end.get('exitCode')})"
