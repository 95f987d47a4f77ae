"""Builders of resources as the API server shows them, and a cluster that takes a plan as the API server would."""

from base64 import b64decode, b64encode
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from justitia_api.config import KeyTable, PoolConfig
from justitia_operator.build.credentials import pool_pepper
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.catalog import Catalog
from justitia_operator.world.installation import Installation
from justitia_operator.world.names import children_name
from justitia_operator.world.objects import OWN_KINDS, Json, Kind, Plan, Ref, ref_of
from justitia_operator.world.snapshot import Snapshot, build_snapshot
from support.owners import owned_by_us

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC)
ROOT = "00" * 32
PEPPER = pool_pepper(ROOT, "uid-ServingPool-shared")
"""The pepper of the pool `shared`."""
INSTALLATION = Installation(namespace="justitia-system", sidecar_image="justitia:test", root=ROOT)


def resource(kind: str, name: str, spec: Json, namespace: str = "", **metadata: Any) -> Json:
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **where, "uid": f"uid-{kind}-{name}", "generation": 1, **metadata},
        "spec": spec,
    }


def tenant(name: str = "alice", *, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Json:
    given = {"namespaces": {"names": ["apps"]}, "apiKeys": [{"secretRef": {"name": f"{name}-key"}}]} | spec
    return resource("Tenant", name, given, creationTimestamp=created)


def key(name: str = "alice", token: str | None = None, entry: str = "token") -> Json:
    value = b64encode((token or f"a-long-enough-token-of-{name}").encode()).decode()
    metadata = {"name": f"{name}-key", "namespace": INSTALLATION.namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {entry: value}}


def pool(name: str = "shared", **spec: Any) -> Json:
    given = {"model": {"uri": "hf://acme/model"}} | spec
    return resource("ServingPool", name, given, namespace="apps")


def application(name: str = "chat", tenant: str = "alice", namespace: str = "apps", **spec: Any) -> Json:
    given: Json = {"tenantRef": {"name": tenant}} | ({} if "pool" in spec else {"poolRef": {"name": "shared"}}) | spec
    return resource("LLMApplication", name, given, namespace=namespace)


def namespace(name: str = "apps", **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(
    name: str = "justitia-shared-1",
    *,
    instance: str = "containerd://one",
    address: str = "10.0.0.7",
    state: str = "running",
) -> Json:
    """A pod of the pool `shared`, with its sidecar in this state."""
    container = {"name": "sidecar", "state": {state: {}}, "started": state == "running", "containerID": instance}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "apps", "uid": name, "labels": {"justitia.dev/pool": "shared"}},
        "status": {"podIP": address, "initContainerStatuses": [container]},
    }


def world(*objects: Json) -> Snapshot:
    return build_snapshot(objects, INSTALLATION)


def small_world(*more: Json) -> Snapshot:
    """A tenant with its key, a pool and an application of it."""
    return world(tenant(), key(), pool(), application(), *more)


def put(snapshot: Snapshot, *objects: Json) -> Snapshot:
    return replace(snapshot, objects=Catalog([*snapshot.objects.values(), *objects]))


def without(snapshot: Snapshot, *gone: Ref) -> Snapshot:
    return replace(snapshot, objects=Catalog(obj for ref, obj in snapshot.objects.items() if ref not in gone))


def applied(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The cluster after the plan."""
    objects = dict(snapshot.objects)
    for obj in plan.applies:
        before = objects.get(ref_of(obj), {})
        kept = {field: before[field] for field in ("status",) if field in before}
        objects[ref_of(obj)] = owned_by_us(deepcopy(obj)) | kept
    for ref in plan.deletes:
        del objects[ref]
    for patch in plan.statuses:
        objects[patch.ref] = objects[patch.ref] | {"status": patch.status}
    return replace(snapshot, objects=Catalog(objects.values()))


def settled(snapshot: Snapshot, now: datetime = NOW) -> Snapshot:
    """The cluster after reconciling until nothing is left to do. Fails where that never happens."""
    for _ in range(10):
        plan = Plan()
        for ref in [ref for ref in snapshot.objects if ref.kind in OWN_KINDS]:
            plan += reconcile(snapshot, ref, now)
        if not plan:
            return snapshot
        snapshot = applied(snapshot, plan)
    raise AssertionError(f"does not settle: {plan}")


def child(snapshot: Snapshot, kind: Kind, pool: str = "shared") -> Json:
    return snapshot.objects[Ref(kind, "apps", children_name(pool, kind))]


def config(snapshot: Snapshot, pool: str = "shared") -> PoolConfig:
    return PoolConfig.model_validate_json(child(snapshot, Kind.CONFIG_MAP, pool)["data"]["pool.json"])


def keys(snapshot: Snapshot, pool: str = "shared") -> KeyTable:
    return KeyTable.model_validate_json(b64decode(child(snapshot, Kind.SECRET, pool)["data"]["keys.json"]))


def condition(snapshot: Snapshot, kind: Kind, name: str, type_: str, namespace: str = "apps") -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    obj = snapshot.objects[Ref(kind, namespace if kind.namespaced else "", name)]
    found = {c["type"]: c for c in obj["status"]["conditions"]}[type_]
    return found["status"], found["reason"], found["message"]


def with_ready_engines(snapshot: Snapshot, ready: int = 1, pool: str = "shared") -> Snapshot:
    """What a kubelet would have reported."""
    deployment = child(snapshot, Kind.DEPLOYMENT, pool)
    return put(snapshot, deployment | {"status": {"replicas": ready, "readyReplicas": ready}})
