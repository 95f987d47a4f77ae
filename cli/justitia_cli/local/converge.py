"""Runs the operator's reconcile without a cluster: documents in, the objects of one pool out.

What reconcile plans is put back into the snapshot, as an API server would do, until it plans nothing more.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from justitia_api.config import KeyTable, PoolConfig
from justitia_api.pool import ServingPool
from justitia_cli.local.errors import LocalError
from justitia_operator.build.builders import build_config_map
from justitia_operator.build.documents import CONFIG_FILE, KEYS_FILE
from justitia_operator.decide.reconcile import mistakes, reconcile_all
from justitia_operator.decide.resolve import secret_value
from justitia_operator.world.installation import Installation
from justitia_operator.world.names import children_name
from justitia_operator.world.objects import MANAGER, Json, Kind, Ref, ref_of
from justitia_operator.world.snapshot import build_snapshot

KEY_NAMESPACE = "justitia-system"
ROUNDS = 10


@dataclass(frozen=True)
class PoolObjects:
    """The objects of a pool, as they would be in a cluster."""

    pool: ServingPool
    deployment: Json
    config: PoolConfig
    keys: KeyTable


def converge(documents: Iterable[Json], previous: PoolConfig | None, root: str) -> PoolObjects:
    """The objects of the only pool in the documents. `previous` is the configuration in effect, if there is one.

    Raises LocalError for a mistake that a cluster would show as a condition that is False.
    """
    installation = Installation(KEY_NAMESPACE, "local", root, node_cache_path="local", inline_pools=None)
    try:
        world = build_snapshot([_with_identity(document) for document in documents], installation)
    except ValueError as error:
        raise LocalError(str(error)) from error
    objects = world.objects
    for _ in range(ROUNDS):
        plan = reconcile_all(world, datetime.now(UTC))
        for mistake in mistakes(plan):
            raise LocalError(f"{mistake.ref}: {mistake.reason}: {mistake.message}")
        for applied in plan.applies:
            objects.put(_with_identity(_ours(applied)))
        if previous is not None:
            objects.put(build_config_map(_only_pool(objects), previous))
            previous = None
        elif not plan.applies:
            return _pool_objects(objects)
    raise AssertionError(f"reconcile did not settle in {ROUNDS} rounds")


def read_keys(documents: Iterable[Json]) -> dict[str, str]:
    """An API key of each tenant, in clear text, from the Secrets in the documents."""
    by_ref = {ref_of(document): document for document in documents}
    keys: dict[str, str] = {}
    for document in by_ref.values():
        for key in document["spec"]["apiKeys"] if document["kind"] == Kind.TENANT else ():
            reference = key["secretRef"]
            secret = by_ref.get(Ref(Kind.SECRET, KEY_NAMESPACE, reference["name"]))
            value = secret and secret_value(secret, reference.get("key", "token"))
            if value:
                keys.setdefault(document["metadata"]["name"], value.decode())
    return keys


def _ours(applied: Json) -> Json:
    """The object with the field owners that an API server would record. Here nobody else owns a field."""
    entry = {"manager": MANAGER, "operation": "Apply", "fieldsV1": {}}
    return {**applied, "metadata": {**applied["metadata"], "managedFields": [entry]}}


def _with_identity(document: Json) -> Json:
    """The document with the metadata that an API server would have added."""
    added = {
        "uid": str(uuid.uuid5(uuid.NAMESPACE_URL, str(ref_of(document)))),
        "generation": 1,
        "creationTimestamp": "1970-01-01T00:00:00Z",
    }
    return {**document, "metadata": {**added, **document["metadata"]}}


def _only_pool(objects: Mapping[Ref, Json]) -> ServingPool:
    pools = sorted(ref for ref in objects if ref.kind is Kind.SERVING_POOL)
    if len(pools) != 1:
        names = ", ".join(f"{ref.namespace}/{ref.name}" for ref in pools)
        raise LocalError(
            f"the files define {len(pools)} pools ({names}): local mode runs one, so give the files of one pool"
        )
    pool = ServingPool.model_validate({key: value for key, value in objects[pools[0]].items() if key != "status"})
    if pool.spec.engine.nodes > 1:
        raise LocalError(f"{pools[0]}: engine.nodes is {pool.spec.engine.nodes}: local mode has one machine; remove it")
    return pool


def _pool_objects(objects: Mapping[Ref, Json]) -> PoolObjects:
    pool = _only_pool(objects)
    namespace, name = pool.metadata.namespace, children_name(pool.metadata.name)
    keys = secret_value(objects[Ref(Kind.SECRET, namespace, name)], KEYS_FILE)
    return PoolObjects(
        pool,
        objects[Ref(Kind.DEPLOYMENT, namespace, name)],
        PoolConfig.model_validate_json(objects[Ref(Kind.CONFIG_MAP, namespace, name)]["data"][CONFIG_FILE]),
        KeyTable.model_validate_json(keys or b""),
    )
