"""The root of an installation. Each pool's pepper and control credentials are derived from it."""

import secrets
from base64 import b64encode

from justitia_operator.decide.resolve import secret_value
from justitia_operator.runtime.kube import Kube, Rejected
from justitia_operator.world.objects import MANAGED_BY_LABEL, MANAGER, Kind, Ref

ROOT_SECRET = "root.justitia.dev"
"""A name that no object of a pool has: those begin with `justitia-`."""
ROOT_ENTRY = "root"
ROOT_BYTES = 32


async def ensure_root(kube: Kube, namespace: str) -> str:
    """Returns the root, hex. It is made at the first start and never changed, because every digest depends on it."""
    found = await kube.get(Ref(Kind.SECRET, namespace, ROOT_SECRET))
    if found is None:
        value = b64encode(secrets.token_hex(ROOT_BYTES).encode()).decode()
        metadata = {"name": ROOT_SECRET, "namespace": namespace, "labels": {MANAGED_BY_LABEL: MANAGER}}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {ROOT_ENTRY: value}}
        found = await kube.create(secret) or await kube.get(Ref(Kind.SECRET, namespace, ROOT_SECRET))
    root = secret_value(found, ROOT_ENTRY) if found else None
    if root is None:
        raise Rejected(
            f"Secret {namespace}/{ROOT_SECRET} has no entry {ROOT_ENTRY}: delete it, and the operator makes a new one"
        )
    return root.decode()
