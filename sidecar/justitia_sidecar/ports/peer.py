"""The port for the other sidecars of the pool: takes the completions that they pass on.

Who is connected has a certificate of this pool. It has found out whose request it is, and says so.
"""

import math

from justitia_api.wire import TENANT_HEADER, WAITED_HEADER, HandedBack
from justitia_sidecar.refusals import too_many_open
from justitia_sidecar.request.asgi import Receive, Scope, Send, send_answer
from justitia_sidecar.request.elsewhere import handed_back
from justitia_sidecar.request.entry import Entry
from justitia_sidecar.request.incoming import completion
from justitia_sidecar.request.parts import Parts
from justitia_vocabulary.units import Seconds, TenantId


class PeerApp:
    def __init__(self, parts: Parts) -> None:
        self._entry = Entry(parts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = dict(scope["headers"])
        tenant, waited = told.get(TENANT_HEADER.encode(), b""), _seconds(told.get(WAITED_HEADER.encode(), b""))
        incoming = completion(scope, receive, send, TenantId(tenant.decode("latin-1")), waited)
        if incoming is None or not tenant or waited is None:
            await send_answer(send, 404, [], b"")
            return
        authenticated = scope.get("state", {}).get("authenticated")
        if authenticated is None or authenticated(incoming.tenant):
            await self._entry.serve(incoming)
            return
        no_seat = too_many_open()
        headers = [*no_seat.headers, handed_back(HandedBack.REQUEST), (b"connection", b"close")]
        await send_answer(send, no_seat.refusal.status, headers, no_seat.body)


def _seconds(value: bytes) -> Seconds | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None
