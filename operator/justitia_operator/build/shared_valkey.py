"""The Valkey that a pool's engines share: the one that the pool names, or the installation's.

The installation's has a user for each pool. Its password is derived and not stored, and reaches the pods in the pool's
own Secret. So every pod is ready to share, and a pool that gets a second engine restarts none for it.
"""

from collections.abc import Iterable
from functools import lru_cache

from justitia_api.config import ValkeyConfig
from justitia_api.pool import ServingPool
from justitia_operator.build.credentials import derive
from justitia_operator.world.installation import Installation
from justitia_operator.world.names import children_name
from justitia_operator.world.objects import Json
from justitia_valkey.connection import AUTHORITY_FILE, PASSWORD_FILE, USERNAME_FILE
from justitia_valkey.users import PoolUser

DIRECTORY = "/etc/justitia/valkey"
VOLUME = "valkey"
_ENTRY = "valkey-"
"""Begins the names of entries in a pool's own Secret."""


def valkey_of(pool: ServingPool, installation: Installation) -> ValkeyConfig | None:
    """Where the pool's engines share. None: each shares by itself, or there is one."""
    spec = pool.spec
    if spec.scheduling.enforcement != "Engine":
        return None
    if (own := spec.valkey) is not None:
        return ValkeyConfig(
            pool=f"{pool.metadata.namespace}/{pool.metadata.name}",
            addresses=own.addresses,
            kind=own.kind,
            primary=own.primary_name or "",
            tls=own.tls,
        )
    most = spec.autoscaling.maximum_replicas if spec.autoscaling is not None else spec.replicas
    if installation.valkey is None or max(most, spec.replicas) < 2:
        return None
    return ValkeyConfig(**installation.valkey.server.model_dump() | {"pool": pool.metadata.uid})


def users_prefix(root: str) -> str:
    """Begins the names of an installation's users: others may use the same server."""
    return f"justitia-{derive(root, 'justitia valkey')[:6].hex()}-"


@lru_cache(maxsize=4096)
def _user(root: str, uid: str) -> PoolUser:
    return PoolUser(f"{users_prefix(root)}{uid}", uid, derive(root, f"justitia valkey/{uid}").hex())


def pool_users(pools: Iterable[Json], root: str) -> list[PoolUser]:
    """The users that the installation's Valkey has to have: of the pools that name no other, as they were stored."""
    return [_user(root, obj["metadata"]["uid"]) for obj in pools if not (obj.get("spec") or {}).get("valkey")]


def valkey_entries(pool: ServingPool, installation: Installation) -> dict[str, str]:
    """What the pool's own Secret has for the installation's Valkey."""
    if pool.spec.valkey is not None or installation.valkey is None:
        return {}
    user = _user(installation.root, pool.metadata.uid)
    entries = {_ENTRY + USERNAME_FILE: user.name, _ENTRY + PASSWORD_FILE: user.password}
    authority = installation.valkey.authority
    return entries if authority is None else entries | {_ENTRY + AUTHORITY_FILE: authority}


def valkey_volumes(pool: ServingPool, installation: Installation) -> list[Json]:
    """A missing Secret must not keep a pod from starting: serving does not depend on Valkey."""
    own = pool.spec.valkey
    if own is not None and own.secret_ref is not None:
        secret: Json = {"secretName": own.secret_ref.name}
    elif entries := valkey_entries(pool, installation):
        items = [{"key": entry, "path": entry.removeprefix(_ENTRY)} for entry in entries]
        secret = {"secretName": children_name(pool.metadata.name), "items": items}
    else:
        return []
    return [{"name": VOLUME, "secret": {**secret, "optional": True, "defaultMode": 0o440}}]


def valkey_mounts(pool: ServingPool, installation: Installation) -> list[Json]:
    mount = {"name": VOLUME, "mountPath": DIRECTORY, "readOnly": True}
    return [mount] if valkey_volumes(pool, installation) else []


def valkey_environment(pool: ServingPool, installation: Installation) -> list[Json]:
    variable = {"name": "JUSTITIA_VALKEY_FOLDER", "value": DIRECTORY}
    return [variable] if valkey_volumes(pool, installation) else []
