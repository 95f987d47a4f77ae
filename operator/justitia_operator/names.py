"""What a pool's objects are called, and the labels of its pods."""

from justitia_api.pool import ServingPool
from justitia_operator.objects import POOL_LABEL, Kind, Ref

_PREFIX = "justitia-"


def children_name(pool: str) -> str:
    """Name of all objects of a pool. The prefix keeps them apart from what users make themselves."""
    return f"{_PREFIX}{pool}"


def pools_of_child(child: Ref) -> set[Ref]:
    """The pool of which the object would be one by its name, if any."""
    pool = child.name.removeprefix(_PREFIX)
    return set() if pool == child.name else {Ref(Kind.SERVING_POOL, child.namespace, pool)}


def child_ref(pool: ServingPool, kind: Kind) -> Ref:
    """The pool's object of a kind."""
    return Ref(kind, pool.metadata.namespace, children_name(pool.metadata.name))


def pool_ref(pool: ServingPool) -> Ref:
    """The pool itself."""
    return Ref(Kind.SERVING_POOL, pool.metadata.namespace, pool.metadata.name)


def selector_of(pool: str) -> dict[str, str]:
    """Labels of a pool's pods."""
    return {"app.kubernetes.io/name": "justitia-pool", POOL_LABEL: pool}


def service_host(pool: str, namespace: str) -> str:
    return f"{children_name(pool)}.{namespace}.svc"
