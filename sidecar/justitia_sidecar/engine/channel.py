"""The sidecar's end of the channel to the plug-in inside the engine (`justitia_channel.messages`).

The sidecar listens on a Unix socket. The plug-in connects, and connects again after either side was gone. It gets the
configuration in effect at once, and tickets as they are made. Nothing is kept for a plug-in that is away, and nothing
waits for one that does not read: beyond `LONGEST_BACKLOG` bytes messages are dropped, and counted.
"""

import asyncio
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import structlog
from msgspec.structs import asdict, replace

from justitia_api.status import PlugInStatus
from justitia_channel.messages import (
    VERSION,
    Admitted,
    Arrived,
    AskQueue,
    Closed,
    Configure,
    Delivered,
    Hello,
    Message,
    PlugInSnapshot,
    Queue,
    Ticket,
)
from justitia_channel.wire import ChannelError, Lines, decode, encode
from justitia_vocabulary.units import KVTokenTime, RunId, Seconds

LONGEST_BACKLOG = 4 * 2**20
ANSWER_WITHIN: Seconds = 2.0
_READ = 2**16
NO_SNAPSHOT = PlugInSnapshot()

log = structlog.get_logger("justitia.sidecar")


def listen(path: Path) -> socket.socket:
    """A Unix socket for processes of the same user, in place of what an earlier process left there."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    return listener


class PluginConnection(Protocol):
    """What carries bytes to the plug-in: asyncio's transports are such."""

    def write(self, data: bytes) -> None: ...

    def get_write_buffer_size(self) -> int: ...

    def close(self) -> None: ...


class EngineChannel:
    """The state of the channel. `serve` does its I/O; it calls `joined`, `receive` for each line, and `left`.

    `hear` gets what the plug-in says of sequences, in order; `on_snapshot` gets each snapshot, with the process that it
    is of, `on_delivered` what the engine has delivered to runs since it said so last; `on_hello` is called when the
    plug-in has introduced itself.

    `instance` tells this process from those before it. `peer` names the engine's process, empty before the first;
    `vllm` is its version, and `unsupported` is why it does not keep the order, if it does not. `state` is its last
    snapshot, kept while it is away.

    `gaps` grows where the engine may have begun with sequences and not said so: a connection ended, its policy failed
    or came back, messages were dropped.
    """

    def __init__(self, hear: Callable[[Arrived | Admitted | Closed], None] = lambda message: None) -> None:
        self.hear = hear
        self.on_snapshot: Callable[[str, PlugInSnapshot], None] = lambda instance, snapshot: None
        self.on_delivered: Callable[[Mapping[RunId, KVTokenTime]], None] = lambda growth: None
        self.on_hello: Callable[[], None] = lambda: None
        self.instance = uuid.uuid4().hex
        self.peer = ""
        self.vllm: str | None = None
        self.unsupported: str | None = None
        self.gaps = 0
        self.state = NO_SNAPSHOT
        self.dropped = 0
        self.malformed = 0
        self._hello = encode(Hello(VERSION, self.instance))
        self._configuration: Configure | None = None
        self._connection: PluginConnection | None = None
        self._greeted = False
        self._asked: list[asyncio.Future[Queue]] = []

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._greeted

    @property
    def status(self) -> PlugInStatus:
        state = self.state
        return PlugInStatus(
            connected=self.connected,
            vllm=self.vllm,
            generation=None if state is NO_SNAPSHOT else state.generation,
            dismissed=state.dismissed,
            failures=state.failures,
            last_failure=state.failure or None,
        )

    @property
    def reporting(self) -> bool:
        """Whether the plug-in says with which sequences the engine begins: not while it has no policy."""
        return self.connected and not self.state.dismissed

    async def serve(self, listener: socket.socket) -> None:
        """Talk to whoever connects, until cancelled."""
        server = await asyncio.start_unix_server(self._converse, sock=listener)
        async with server:
            await server.serve_forever()

    def configure(self, configuration: Configure) -> None:
        self._configuration = configuration
        self.send(configuration)

    def send(self, message: Message) -> None:
        """Send it to the plug-in, if it is there and reads."""
        if self._connection is None:
            return
        if self._connection.get_write_buffer_size() > LONGEST_BACKLOG:
            self.dropped += 1
            return
        if isinstance(message, Ticket):
            message = replace(message, sent=time.monotonic())
        self._connection.write(encode(message))

    async def queue(self, limit: int) -> Queue | None:
        """The engine's queue. None if the plug-in does not answer in time: it answers between two steps."""
        if self._connection is None:
            return None
        answer: asyncio.Future[Queue] = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self.send(AskQueue(limit))
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await answer
        except TimeoutError:
            return None
        finally:
            if answer in self._asked:
                self._asked.remove(answer)

    def disconnect(self) -> None:
        """End the connection, if there is one. The plug-in connects again."""
        if self._connection is not None:
            self._connection.close()

    # What happens on the socket.

    def joined(self, connection: PluginConnection) -> None:
        """A plug-in has connected. It takes the place of one that was connected."""
        self.disconnect()
        self._connection, self._greeted = connection, False
        connection.write(self._hello)
        if self._configuration is not None:
            connection.write(encode(self._configuration))

    def left(self, connection: PluginConnection) -> None:
        """A connection is over."""
        self.gaps += 1
        if self._connection is connection:
            self._connection = None
            log.warning("the plug-in has disconnected: requests go on without tickets until it is back")

    def receive(self, line: bytes) -> None:
        """Take one line from the plug-in. Raises ChannelError where it speaks another version."""
        try:
            message = decode(line)
        except ChannelError as error:
            self.malformed += 1
            log.warning("the plug-in sent a malformed message, which is passed over", reason=str(error))
            return
        match message:
            case Arrived() | Admitted() | Closed():
                self.hear(message)
            case Delivered(runs=growth):
                self.on_delivered(growth)
            case PlugInSnapshot():
                before = self.state
                self.gaps += (message.failures, message.dropped_out) != (before.failures, before.dropped_out)
                self.state = message
                self.on_snapshot(self.peer, message)
            case Queue():
                for answer in self._asked:
                    if not answer.done():
                        answer.set_result(message)
                self._asked.clear()
            case Hello(version=version, instance=instance, about=about):
                if version != VERSION:
                    raise ChannelError(f"it speaks version {version}, not {VERSION}: update the older", fatal=True)
                if self.peer != instance:
                    self.state = NO_SNAPSHOT
                self.peer, self.vllm, self._greeted = instance, about.vllm, True
                self.unsupported = about.unsupported
                log.info("the plug-in has connected", **asdict(about))
                self.on_hello()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.joined(writer.transport)
        lines = Lines()
        try:
            while data := await reader.read(_READ):
                for line in lines.feed(data):
                    self.receive(line)
        except (OSError, ChannelError) as error:
            log.warning("the connection to the plug-in failed", reason=str(error))
        except asyncio.CancelledError:
            pass  # the event loop ends, and Python 3.11 would print a traceback for each connection
        finally:
            self.left(writer.transport)
            writer.close()
