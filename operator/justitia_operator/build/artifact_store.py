"""A pool's store of samples and predictors, as containers see it.

A missing Secret must not keep a pod from starting: serving does not depend on learning.
"""

from justitia_api.learning import ArtifactStore, S3Bucket
from justitia_api.pool import ServingPool
from justitia_operator.world.objects import Json

DIRECTORY = "/store"
VOLUME = "store"
REGION = "us-east-1"
ACCESS_ENTRIES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def store_url(pool: ServingPool, store: ArtifactStore) -> str:
    """The pool's own part of the store. No other pool uses it, so leftovers may be erased."""
    url = f"file://{DIRECTORY}" if store.bucket is None else store.bucket.url.rstrip("/")
    return f"{url}/{pool.metadata.uid}"


def store_environment(store: ArtifactStore) -> list[Json]:
    """Environment variables that the store's client reads, besides the URL."""
    return [] if store.bucket is None else _of_bucket(store.bucket)


def _of_bucket(bucket: S3Bucket) -> list[Json]:
    environment: list[Json] = [{"name": "AWS_REGION", "value": bucket.region or REGION}]
    if bucket.endpoint is not None:
        environment.append({"name": "AWS_ENDPOINT", "value": bucket.endpoint})
    if bucket.secret_ref is not None:
        for entry in ACCESS_ENTRIES:
            reference = {"name": bucket.secret_ref.name, "key": entry, "optional": True}
            environment.append({"name": entry, "valueFrom": {"secretKeyRef": reference}})
    return environment


def store_volumes(store: ArtifactStore) -> list[Json]:
    if store.claim_name is None:
        return []
    return [{"name": VOLUME, "persistentVolumeClaim": {"claimName": store.claim_name}}]


def store_mounts(store: ArtifactStore) -> list[Json]:
    return [] if store.claim_name is None else [{"name": VOLUME, "mountPath": DIRECTORY}]
