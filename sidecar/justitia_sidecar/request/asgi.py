"""The part of ASGI that requests need: types, a whole answer, and work that ends when the client goes away."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from justitia_sidecar.refusals import Headers

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Connection(Protocol):
    """Carries answers to a client."""

    @property
    def congested(self) -> bool:
        """Whether sending waits for the client."""

    @property
    def given_up(self) -> bool:
        """Whether the connection was ended because its client does not read."""

    def abort(self) -> None:
        """End the connection, and drop what was not sent."""


class _AlwaysWritable:
    """Stands for the connection where the server does not give one."""

    congested = False
    given_up = False

    def abort(self) -> None:
        """Do nothing: there is no connection to end."""


def connection_of(scope: Scope) -> Connection:
    """The connection that a request came by."""
    connection: Connection = scope.get("state", {}).get("connection") or _AlwaysWritable()
    return connection


class ClientGoneError(Exception):
    """The client went away before its request was read."""


async def send_answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": int(status), "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def until_disconnect(receive: Receive, work: Awaitable[None]) -> None:
    """Await `work`, cancelled as soon as the client goes away."""
    task = asyncio.current_task()
    assert task is not None
    gone = asyncio.ensure_future(_disconnected(receive))
    gone.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
    try:
        await work
    except asyncio.CancelledError:
        if not gone.done() or gone.cancelled():
            raise
        task.uncancel()
    finally:
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
