"""Finds the tenant of an API key, by the digest of the key under the pool's pepper.

The table is looked up by digest, so the time of a look-up reveals nothing about a key. Neither keys nor the pepper
appear in messages.
"""

from justitia_api.config import KeyTable, key_digest
from justitia_api.wire import Refusal
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import TenantId

_SCHEME = b"bearer "


class KeyRing:
    def __init__(self, table: KeyTable) -> None:
        self.generation = table.generation
        self._pepper = table.pepper
        self._tenants = {entry.digest: TenantId(entry.tenant) for entry in table.keys}

    def tenant(self, authorization: bytes | None) -> TenantId:
        """The tenant of an `Authorization` header. Raises a refusal with 401."""
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise RefusalError(
                Refusal.INVALID_API_KEY, "No API key was given: send the header 'Authorization: Bearer <key>'."
            )
        digest = key_digest(self._pepper, authorization[len(_SCHEME) :].strip())
        try:
            return self._tenants[digest]
        except KeyError:
            raise RefusalError(
                Refusal.INVALID_API_KEY, "The API key is not known here: check it with the owner of your tenant."
            ) from None
