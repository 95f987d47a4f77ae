"""The installation's Valkey: how the operator logs in, and the users of pools, which it keeps there."""

import secrets
from base64 import b64encode
from collections.abc import Callable, Collection
from hashlib import sha256

import structlog

from justitia_operator.decide.resolve import secret_value
from justitia_operator.runtime.kube import Kube, Rejected
from justitia_operator.runtime.metrics import Fault, Metrics
from justitia_operator.runtime.settings import Settings
from justitia_operator.world.objects import MANAGED_BY_LABEL, MANAGER, Json, Kind, Ref
from justitia_valkey.connection import AUTHORITY_FILE, PASSWORD_FILE, USERNAME_FILE, Login, ValkeyError
from justitia_valkey.users import PoolUser, PoolUsers

LOOK_SECONDS = 5.0
"""Seconds between two looks whether the users are as they should be: a Valkey that starts again has none."""
USERS_ENTRY = "users.acl"
"""The file from which the chart's Valkey reads its first users."""
ADMINISTRATOR = "justitia-operator"

log = structlog.get_logger()


async def find_login(kube: Kube, settings: Settings) -> Login:
    """What the Secret with the login says, which is made for the chart's own Valkey if it is missing. Raises
    Unavailable, Rejected.
    """
    ref = Ref(Kind.SECRET, settings.namespace, settings.valkey_secret)
    found = await kube.get(ref)
    if found is None and settings.valkey_own:
        found = await kube.create(first_login(ref)) or await kube.get(ref)
    if found is None:
        raise Rejected(
            f"there is no Secret {ref.namespace}/{ref.name}: make one with the entries {USERNAME_FILE} and "
            f"{PASSWORD_FILE} of a user of the Valkey who may manage users"
        )
    values = [secret_value(found, entry) for entry in (USERNAME_FILE, PASSWORD_FILE, AUTHORITY_FILE)]
    return Login(*(None if value is None else value.decode() for value in values))


def first_login(ref: Ref) -> Json:
    """The administrator of a Valkey that nobody else may enter."""
    password = secrets.token_hex(32)
    digest = sha256(password.encode()).hexdigest()
    entries = {
        USERNAME_FILE: ADMINISTRATOR,
        PASSWORD_FILE: password,
        USERS_ENTRY: f"user default off\nuser {ADMINISTRATOR} on #{digest} -@all +acl\n",
    }
    data = {name: b64encode(text.encode()).decode() for name, text in entries.items()}
    metadata = {"name": ref.name, "namespace": ref.namespace, "labels": {MANAGED_BY_LABEL: MANAGER}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


class UserKeeper:
    """Keeps the users of pools as `wanted`. A failure is said once, and tried again."""

    def __init__(self, users: PoolUsers, wanted: Callable[[], Collection[PoolUser]], metrics: Metrics) -> None:
        self._users = users
        self._wanted = wanted
        self._metrics = metrics
        self._failing = False

    async def look(self) -> None:
        try:
            await self._users.keep(self._wanted())
        except ValkeyError as error:
            self._metrics.faults.labels("Valkey", Fault.UNAVAILABLE).inc()
            if not self._failing:
                log.warning(
                    "the users of pools are not kept in Valkey: engines may share by themselves", error=str(error)
                )
            self._failing = True
        else:
            self._failing = False
