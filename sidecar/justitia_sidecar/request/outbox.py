"""Holds what the engine has answered and a client has not read yet.

An answer is written to its connection while the client reads; the rest waits in an outbox, on its tenant's account
(`held.py`). The engine is read all the same: what it has finished is over for the tenant's limits and for everybody who
waits, however late the client reads. An answer that must give way is ended with its connection. `client_connection.py`
ends connections whose clients read nothing.
"""

import asyncio
from collections import deque

from justitia_sidecar.limits.held import HeldBytes, HeldKind, Holding
from justitia_sidecar.refusals import Headers
from justitia_sidecar.request.asgi import Connection, Send
from justitia_vocabulary.units import TenantId

PIECE = 2**16
"""The most bytes that are written at a time."""


class Outbox:
    """One answer on its way to its client."""

    def __init__(self, account: HeldBytes, tenant: TenantId, send: Send, connection: Connection) -> None:
        self._account = account
        self._holding = Holding(tenant, HeldKind.ANSWER, self.give_up)
        self._send = send
        self._connection = connection
        self._head: tuple[int, Headers] | None = None
        self._pieces: deque[bytes] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._given_up = False

    @property
    def held(self) -> int:
        """Bytes that are not written yet."""
        return self._holding.size

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the head, or hold it until it can be sent. Like `write`, it does not wait for the client."""
        self._head = status, headers
        if self._connection.congested:
            self.release()
        else:
            await self._send_head()

    async def write(self, data: bytes) -> None:
        if self._sender is None and len(data) <= PIECE and not self._connection.congested:
            await self._send({"type": "http.response.body", "body": data, "more_body": True})
        else:
            self.hold(data)
            self.release()

    def hold(self, data: bytes) -> None:
        """Keep data until `release`. Something else, or this answer itself, may give way for it."""
        if not self._given_up:
            self._pieces.extend(data[at : at + PIECE] for at in range(0, len(data), PIECE))
            if not self._account.put(self._holding, self.held + len(data)):
                self.give_up()

    def whole(self) -> bytes:
        """All that is held, in one piece."""
        return b"".join(self._pieces)

    def release(self) -> None:
        """Send what is held, as fast as the client takes it."""
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send_all())

    async def finish(self, last: bytes = b"") -> None:
        """End the answer. Waits until the client has taken what is held."""
        if self._sender is not None or self._connection.congested or len(last) > PIECE:
            self.hold(last)
            self.release()
            last = b""
        if self._sender is not None:
            await self._sender
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    def close(self) -> None:
        """Forget what was not sent."""
        if self._sender is not None:
            self._sender.cancel()
        self._forget()

    def give_up(self) -> None:
        """End the connection, with what it has not taken."""
        self._given_up = True
        self._forget()
        self._connection.abort()

    async def _send_head(self) -> None:
        if self._head is not None:
            (status, headers), self._head = self._head, None
            await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _send_all(self) -> None:
        await self._send_head()
        while self._pieces:
            piece = self._next()
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            if not self._given_up:
                self._account.put(self._holding, self.held - len(piece))
        self._sender = None

    def _next(self) -> bytes:
        parts = [self._pieces.popleft()]
        room = PIECE - len(parts[0])
        while self._pieces and len(self._pieces[0]) <= room:
            parts.append(self._pieces.popleft())
            room -= len(parts[-1])
        return b"".join(parts)

    def _forget(self) -> None:
        self._pieces.clear()
        self._account.put(self._holding, 0)
