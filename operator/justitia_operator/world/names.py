"""Names of a pool's objects and containers, and labels of its pods."""

from justitia_api.application import LLMApplication
from justitia_api.pool import ServingPool
from justitia_operator.world.objects import POOL_LABEL, Kind, Ref

_PREFIX = "justitia-"
_PREFIX_OF_LEADERS = "justitia--"
"""A LeaderWorkerSet makes a Service of its own name, which must not be this pool's or another's."""

SIDECAR_CONTAINER = "sidecar"
ENGINE_CONTAINER = "engine"
WORKER_CONTAINER = "worker"
PICKER_CONTAINER = "picker"
DELIVERY_CONTAINER = "deliver"


def children_name(pool: str, kind: Kind | None = None) -> str:
    """The name of a pool's objects. The prefix keeps them apart from objects that users make."""
    return f"{_prefix(kind)}{pool}"


def pools_of_child(child: Ref) -> set[Ref]:
    """The pool whose object this would be, by its name."""
    pool = child.name.removeprefix(_prefix(child.kind))
    return set() if pool == child.name else {Ref(Kind.SERVING_POOL, child.namespace, pool)}


def _prefix(kind: Kind | None) -> str:
    return _PREFIX_OF_LEADERS if kind is Kind.LEADER_WORKER_SET else _PREFIX


def child_ref(pool: ServingPool, kind: Kind) -> Ref:
    """The pool's object of a kind."""
    return Ref(kind, pool.metadata.namespace, children_name(pool.metadata.name, kind))


def engines_kind(pool: ServingPool) -> Kind:
    """The kind of object that makes the pods of its engines."""
    return Kind.DEPLOYMENT if pool.spec.engine.nodes == 1 else Kind.LEADER_WORKER_SET


def pool_ref(pool: ServingPool) -> Ref:
    """The pool itself."""
    return Ref(Kind.SERVING_POOL, pool.metadata.namespace, pool.metadata.name)


def application_ref(application: LLMApplication) -> Ref:
    """The application itself."""
    return Ref(Kind.LLM_APPLICATION, application.metadata.namespace, application.metadata.name)


def selector_of(pool: str) -> dict[str, str]:
    """Labels of the pods that have a sidecar: one for each engine."""
    return {"app.kubernetes.io/name": "justitia-pool", POOL_LABEL: pool}


def workers_of(pool: str) -> dict[str, str]:
    """Labels of the pods that run the rest of an engine on further nodes."""
    return {"app.kubernetes.io/name": "justitia-worker", POOL_LABEL: pool}


def pods_of(pool: str) -> dict[str, str]:
    """The label that all pods of a pool have."""
    return {POOL_LABEL: pool}


def service_host(pool: str, namespace: str) -> str:
    return f"{children_name(pool)}.{namespace}.svc"
