"""What the request path needs of ASGI: its types, a whole answer, and work that ends when the client goes away."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from justitia_sidecar.refusals import Headers

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


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
