"""Who calls: API key to tenant, by the digest of the key under the installation's pepper.

The table is looked up by digest, so the time of a look-up tells nothing about a key. Neither keys nor the
pepper appear in messages.
"""

import hmac
from hashlib import sha256

from justitia_api.config import KeyTable
from justitia_api.wire import Refusal
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import TenantId

_SCHEME = b"bearer "


class KeyRing:
    def __init__(self, table: KeyTable) -> None:
        self.generation = table.generation
        self._pepper = bytes.fromhex(table.pepper)
        self._tenants = {entry.digest: TenantId(entry.tenant) for entry in table.keys}

    def tenant(self, authorization: bytes | None) -> TenantId:
        """The tenant of an `Authorization` header. Raises a refusal with 401."""
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise RefusalError(
                Refusal.INVALID_API_KEY, "No API key was given: send the header 'Authorization: Bearer <key>'."
            )
        digest = hmac.new(self._pepper, authorization[len(_SCHEME) :].strip(), sha256).hexdigest()
        try:
            return self._tenants[digest]
        except KeyError:
            raise RefusalError(
                Refusal.INVALID_API_KEY, "The API key is not known here: check it with the owner of your tenant."
            ) from None
