"""The vocabulary of reconciling: kinds, references, and plans.

Kubernetes objects are plain JSON here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from justitia_api.resource import API_VERSION, GROUP

Json = dict[str, Any]


class Kind(StrEnum):
    """The kinds that the operator reads or writes."""

    TENANT = "Tenant"
    SERVING_POOL = "ServingPool"
    LLM_APPLICATION = "LLMApplication"
    NAMESPACE = "Namespace"
    SECRET = "Secret"
    CONFIG_MAP = "ConfigMap"
    SERVICE = "Service"
    SERVICE_ACCOUNT = "ServiceAccount"
    DEPLOYMENT = "Deployment"
    LEADER_WORKER_SET = "LeaderWorkerSet"
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget"
    NETWORK_POLICY = "NetworkPolicy"
    HORIZONTAL_POD_AUTOSCALER = "HorizontalPodAutoscaler"
    SCALED_OBJECT = "ScaledObject"
    INFERENCE_POOL = "InferencePool"
    HTTP_ROUTE = "HTTPRoute"
    JOB = "Job"
    POD = "Pod"
    EVENT = "Event"
    LEASE = "Lease"

    @property
    def api_version(self) -> str:
        return _API[self][0]

    @property
    def plural(self) -> str:
        return _API[self][1]

    @property
    def namespaced(self) -> bool:
        return self not in {Kind.TENANT, Kind.NAMESPACE}


_API: dict[Kind, tuple[str, str]] = {
    Kind.TENANT: (API_VERSION, "tenants"),
    Kind.SERVING_POOL: (API_VERSION, "servingpools"),
    Kind.LLM_APPLICATION: (API_VERSION, "llmapplications"),
    Kind.NAMESPACE: ("v1", "namespaces"),
    Kind.SECRET: ("v1", "secrets"),
    Kind.CONFIG_MAP: ("v1", "configmaps"),
    Kind.SERVICE: ("v1", "services"),
    Kind.SERVICE_ACCOUNT: ("v1", "serviceaccounts"),
    Kind.DEPLOYMENT: ("apps/v1", "deployments"),
    Kind.LEADER_WORKER_SET: ("leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    Kind.POD_DISRUPTION_BUDGET: ("policy/v1", "poddisruptionbudgets"),
    Kind.NETWORK_POLICY: ("networking.k8s.io/v1", "networkpolicies"),
    Kind.HORIZONTAL_POD_AUTOSCALER: ("autoscaling/v2", "horizontalpodautoscalers"),
    Kind.SCALED_OBJECT: ("keda.sh/v1alpha1", "scaledobjects"),
    Kind.INFERENCE_POOL: ("inference.networking.k8s.io/v1", "inferencepools"),
    Kind.HTTP_ROUTE: ("gateway.networking.k8s.io/v1", "httproutes"),
    Kind.JOB: ("batch/v1", "jobs"),
    Kind.POD: ("v1", "pods"),
    Kind.EVENT: ("events.k8s.io/v1", "events"),
    Kind.LEASE: ("coordination.k8s.io/v1", "leases"),
}

OWN_KINDS = (Kind.TENANT, Kind.SERVING_POOL, Kind.LLM_APPLICATION)
CHILD_KINDS = (
    Kind.SERVICE_ACCOUNT,
    Kind.CONFIG_MAP,
    Kind.SECRET,
    Kind.SERVICE,
    Kind.DEPLOYMENT,
    Kind.POD_DISRUPTION_BUDGET,
    Kind.NETWORK_POLICY,
    Kind.HORIZONTAL_POD_AUTOSCALER,
)

OPTIONAL_KINDS = (Kind.LEADER_WORKER_SET, Kind.SCALED_OBJECT, Kind.INFERENCE_POOL, Kind.HTTP_ROUTE)
"""Children of kinds that other projects define. A cluster need not have them. They are listed and not watched."""

ENGINE_KINDS = frozenset({Kind.DEPLOYMENT, Kind.LEADER_WORKER_SET})
"""Kinds that make the pods of engines. A pool has one of them."""

WATCHED_KINDS = (*CHILD_KINDS, Kind.JOB, Kind.POD)
"""Watched by label. Jobs train predictors. Pods belong to other objects, and are only read."""

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGER = "justitia-operator"
POOL_LABEL = f"{GROUP}/pool"
APPLICATION_ANNOTATION = f"{GROUP}/application"
"""Marks Jobs and pods that work for one LLMApplication, as namespace/name."""
APPLIED_HASH_ANNOTATION = f"{GROUP}/applied-hash"
POD_HASH_ANNOTATION = f"{GROUP}/pod-hash"


SEEN_KINDS = (*OWN_KINDS, Kind.NAMESPACE, *(kind for kind in WATCHED_KINDS if kind is not Kind.SECRET))
"""Kinds that are watched in all namespaces that are served. Secrets are watched in one namespace only."""
CHILD_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGER}"


def selector_for(kind: Kind) -> str:
    """The labels by which objects of a kind are watched and listed. Empty for all of them."""
    return "" if kind in {*OWN_KINDS, Kind.NAMESPACE, Kind.SECRET} else CHILD_SELECTOR


class Ref(NamedTuple):
    """A reference to an object. `namespace` is empty for cluster-wide kinds."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def ref_of(obj: Json) -> Ref:
    """Returns the reference of an object from the API server or a YAML file."""
    metadata = obj["metadata"]
    kind = Kind(obj["kind"])
    return Ref(kind, metadata.get("namespace", "") if kind.namespaced else "", metadata["name"])


def labels_of(obj: Json) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def is_controlled_by(obj: Json, owner: Json) -> bool:
    """Whether the owner is the object's controller."""
    uid = owner["metadata"].get("uid", "")
    references = obj["metadata"].get("ownerReferences") or ()
    return any(reference.get("controller") and reference["uid"] == uid for reference in references)


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True)
class Note:
    """An Event to record about an object."""

    about: Json
    type: EventType
    reason: str
    message: str


@dataclass(frozen=True)
class StatusPatch:
    """The whole status that an object should have."""

    ref: Ref
    status: Json


@dataclass(frozen=True)
class Push:
    """Documents (JSON) to send to a pod, and where its sidecar listens. `instance` is the sidecar's container.
    `server_uid` is the pool's uid, from which credentials are derived. `digest` identifies the documents. `replaces` is
    the digest of what the pod runs: the documents replace it even if it is newer.
    """

    pod: Ref
    instance: str
    address: str
    server_uid: str
    generation: int
    documents: bytes = field(repr=False)
    digest: str = ""
    replaces: str | None = None


@dataclass(frozen=True)
class Plan:
    """Writes to the API server, and documents to send to pods. An empty plan does nothing."""

    applies: tuple[Json, ...] = ()
    deletes: tuple[Ref, ...] = ()
    statuses: tuple[StatusPatch, ...] = ()
    events: tuple[Note, ...] = ()
    pushes: tuple[Push, ...] = ()

    def __add__(self, other: "Plan") -> "Plan":
        return Plan(
            self.applies + other.applies,
            self.deletes + other.deletes,
            self.statuses + other.statuses,
            self.events + other.events,
            self.pushes + other.pushes,
        )

    def __bool__(self) -> bool:
        return bool(self.applies or self.deletes or self.statuses or self.events or self.pushes)
