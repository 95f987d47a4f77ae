"""A completion as it came in, from a client or from another sidecar of the pool."""

import re
from dataclasses import dataclass

from justitia_sidecar.identity.recognition import RequestHeaders
from justitia_sidecar.request.asgi import Receive, Scope, Send
from justitia_sidecar.request.body import Endpoint
from justitia_vocabulary.units import Seconds, TenantId


@dataclass(frozen=True, slots=True)
class Incoming:
    """`headers` has the last of each name. `application` is `namespace/name` if the URL names it. `waited`: another
    sidecar passed it on, where it came in so long ago. None: it is a client's.
    """

    scope: Scope
    receive: Receive
    send: Send
    headers: RequestHeaders
    tenant: TenantId
    endpoint: Endpoint
    application: str | None
    waited: Seconds | None = None

    @property
    def passed_on(self) -> bool:
        return self.waited is not None


_COMPLETION = re.compile(r"(?:/applications/([^/]+/[^/]+))?(/v1/(?:chat/)?completions)")


def completion(
    scope: Scope, receive: Receive, send: Send, tenant: TenantId, waited: Seconds | None = None
) -> Incoming | None:
    """The completion that is asked for, None if it is something else."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    match = _COMPLETION.fullmatch(scope["path"])
    if match is None:
        return None
    return Incoming(scope, receive, send, dict(scope["headers"]), tenant, Endpoint(match[2]), match[1], waited)
