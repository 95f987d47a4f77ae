"""A client's connection, which bounds what its client has not read, and for how long the client reads nothing.

uvicorn stops writing while more than 64 KiB are unsent. What is unsent then, or after an answer's end, must become less
within `STALL_SECONDS`; else the connection is ended, because its client does not read. The kernel holds no more than
the client's window, and `UNSENT_IN_KERNEL`.

Time in which nobody looked counts as `LONGEST_LOOK` at most: if this process stood still, that is no client's fault.
"""

import asyncio
import contextlib
import socket
import struct
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from justitia_vocabulary.units import Seconds

STALL_SECONDS: Seconds = 60.0
LONGEST_LOOK: Seconds = 2.0
UNSENT_IN_KERNEL = 2**17
"""Bytes."""


class ClientConnection(HttpToolsProtocol):
    """uvicorn's protocol. Requests find it as `connection` in their state."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.given_up = False
        self._unsent = 0
        self._stalled: Seconds = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        with contextlib.suppress(AttributeError, OSError):  # not every system has it
            transport.get_extra_info("socket").setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_IN_KERNEL
            )

    def resume_writing(self) -> None:
        self._unsent = 0
        super().resume_writing()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["connection"] = self

    @property
    def congested(self) -> bool:
        """Whether writing waits for the client."""
        return self.flow.write_paused

    def abort(self) -> None:
        """End the connection at once, and drop what was not sent, in the kernel too."""
        self.given_up = True
        with contextlib.suppress(OSError):
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()

    def looked_at(self, passed: Seconds) -> None:
        """Look at what the client has taken in the time that has `passed` since the last look."""
        unsent = self.transport.get_write_buffer_size()
        nothing_taken = unsent >= self._unsent > 0 and not self._writing
        self._unsent = unsent
        self._stalled = self._stalled + min(passed, LONGEST_LOOK) if nothing_taken else 0.0
        if self._stalled >= STALL_SECONDS:
            self.abort()

    @property
    def _writing(self) -> bool:
        """Whether an answer is under way that waits for the engine, and not for the client."""
        return not self.congested and self.cycle is not None and not self.cycle.response_complete
