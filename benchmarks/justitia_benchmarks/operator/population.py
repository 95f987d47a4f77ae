"""What a platform has: tenants, each with a namespace and a key, pools of the platform's own, applications between."""

from collections.abc import Iterator
from dataclasses import dataclass

from justitia_operator.world.objects import Json, Kind

SYSTEM = "justitia-system"
POOLS = "models"
"""The namespace of the pools."""
_LABEL = {"example.com/tenants": "yes"}


@dataclass(frozen=True)
class Size:
    tenants: int
    pools: int
    applications: int


def namespaces(size: Size) -> Iterator[Json]:
    """Where the rest goes."""
    yield _object(Kind.NAMESPACE, "", POOLS)
    for tenant in range(size.tenants):
        namespace = _object(Kind.NAMESPACE, "", tenant_name(tenant))
        namespace["metadata"]["labels"] = _LABEL
        yield namespace


def resources(size: Size) -> Iterator[Json]:
    """The applications of a tenant are spread over pools, and those of a pool over tenants."""
    for tenant in range(size.tenants):
        name = tenant_name(tenant)
        token = {"token": f"benchmark-key-{tenant:04}-0123456789abcdef"}
        yield _object(Kind.SECRET, SYSTEM, name, stringData=token)
        keys = [{"secretRef": {"name": name}}]
        yield _object(Kind.TENANT, "", name, spec={"namespaces": {"names": [name]}, "apiKeys": keys})
    for number in range(size.pools):
        model, allowed = {"uri": "hf://acme/model", "name": "m"}, {"selector": {"matchLabels": _LABEL}}
        spec = {"model": model, "allowedNamespaces": allowed}
        yield _object(Kind.SERVING_POOL, POOLS, pool_name(number), spec=spec)
    for number in range(size.applications):
        tenant, turn = number % size.tenants, number // size.tenants
        pool = pool_name((7 * tenant + 5 * turn) % size.pools)
        spec = {"tenantRef": {"name": tenant_name(tenant)}, "poolRef": {"name": pool, "namespace": POOLS}}
        yield _object(Kind.LLM_APPLICATION, tenant_name(tenant), f"application-{turn}", spec=spec)


def tenant_name(number: int) -> str:
    return f"tenant-{number:03}"


def pool_name(number: int) -> str:
    return f"pool-{number:02}"


def _object(kind: Kind, namespace: str, name: str, **content: Json) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": kind.api_version, "kind": str(kind), "metadata": metadata, **content}
