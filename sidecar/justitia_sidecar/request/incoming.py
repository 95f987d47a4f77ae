"""A completion as it came in, from a client or from another sidecar of the pool."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from justitia_api.wire import PICKED_HEADER
from justitia_sidecar.identity.recognition import RequestHeaders
from justitia_sidecar.request.asgi import Receive, Scope, Send
from justitia_sidecar.request.body import Endpoint
from justitia_vocabulary.units import Seconds, TenantId


@dataclass(frozen=True, slots=True)
class Incoming:
    """`headers` has the last of each name. `application` is `namespace/name` if the URL names it. `waited`: another
    sidecar passed it on, where it came in so long ago. None: it is a client's. `picked`: it came through a gateway,
    which an endpoint picker of the pool had sent here.
    """

    scope: Scope
    receive: Receive
    send: Send
    headers: RequestHeaders
    tenant: TenantId
    endpoint: Endpoint
    application: str | None
    waited: Seconds | None = None
    picked: bool = False

    @property
    def passed_on(self) -> bool:
        return self.waited is not None


class CompletionPath(NamedTuple):
    """`application` is `namespace/name` if the path names it."""

    application: str | None
    endpoint: Endpoint


_COMPLETION = re.compile(r"(?:/applications/([^/]+/[^/]+))?(/v1/(?:chat/)?completions)")


def completion_path(path: str) -> CompletionPath | None:
    """What a path asks for, None if it is no completion."""
    match = _COMPLETION.fullmatch(path)
    return None if match is None else CompletionPath(match[1], Endpoint(match[2]))


def completion(
    scope: Scope, receive: Receive, send: Send, tenant: TenantId, waited: Seconds | None = None
) -> Incoming | None:
    """The completion that is asked for, None if it is something else."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    path = completion_path(scope["path"])
    if path is None:
        return None
    headers = dict(scope["headers"])
    size = headers.get(PICKED_HEADER.encode())
    if size is not None:
        headers.setdefault(b"content-length", size)
    picked = size is not None
    return Incoming(scope, receive, send, headers, tenant, path.endpoint, path.application, waited, picked)
