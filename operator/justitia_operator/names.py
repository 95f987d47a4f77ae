"""What a pool's objects are called, and the labels of its pods."""

from justitia_api.pool import ServingPool
from justitia_operator.objects import POOL_LABEL, Kind, Ref


def children_name(pool: str) -> str:
    """Name of all objects of a pool. The prefix keeps them apart from what users make themselves."""
    return f"justitia-{pool}"


def child_ref(pool: ServingPool, kind: Kind) -> Ref:
    """The pool's object of a kind."""
    return Ref(kind, pool.metadata.namespace, children_name(pool.metadata.name))


def selector_of(pool: str) -> dict[str, str]:
    """Labels of a pool's pods."""
    return {"app.kubernetes.io/name": "justitia-pool", POOL_LABEL: pool}


def service_host(pool: str, namespace: str) -> str:
    return f"{children_name(pool)}.{namespace}.svc"
