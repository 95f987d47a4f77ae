"""What an installation has once: the pepper that API keys are digested with."""

import secrets
from base64 import b64encode

from justitia_operator.kube import Kube, Rejected
from justitia_operator.objects import MANAGED_BY_LABEL, MANAGER, Kind, Ref
from justitia_operator.resolve import secret_value

PEPPER_SECRET = "justitia-pepper"
PEPPER_ENTRY = "pepper"
PEPPER_BYTES = 32


async def ensure_pepper(kube: Kube, namespace: str) -> str:
    """The pepper, hex; made at the first start and never changed by us, since every digest depends on it."""
    found = await kube.get(Ref(Kind.SECRET, namespace, PEPPER_SECRET))
    if found is None:
        value = b64encode(secrets.token_hex(PEPPER_BYTES).encode()).decode()
        metadata = {"name": PEPPER_SECRET, "namespace": namespace, "labels": {MANAGED_BY_LABEL: MANAGER}}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {PEPPER_ENTRY: value}}
        found = await kube.create(secret) or await kube.get(Ref(Kind.SECRET, namespace, PEPPER_SECRET))
    pepper = secret_value(found, PEPPER_ENTRY) if found else None
    if pepper is None:
        raise Rejected(
            f"Secret {namespace}/{PEPPER_SECRET} has no entry {PEPPER_ENTRY}: delete it to have it made anew"
        )
    return pepper.decode()
