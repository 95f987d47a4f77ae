"""The sidecar's end of the channel to the scheduler inside the engine (`justitia_channel.messages`).

It listens on a Unix socket; the engine's scheduler connects, and again after either side was gone. Who connects is told
the configuration in force; tickets are sent as they are made. Nothing is kept for an engine that is away, and nothing
waits for one that does not read: beyond `LONGEST_BACKLOG` bytes tickets are dropped, and counted.
"""

import asyncio
import socket
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import structlog
from msgspec.structs import asdict, replace

from justitia_api.status import EngineSchedulerStatus
from justitia_channel.messages import (
    VERSION,
    Admitted,
    Arrived,
    AskQueue,
    Closed,
    Configure,
    Hello,
    Message,
    Queue,
    Snapshot,
    Ticket,
)
from justitia_channel.wire import ChannelError, Lines, decode, encode
from justitia_vocabulary.units import Seconds

LONGEST_BACKLOG = 4 * 2**20
ANSWER_WITHIN: Seconds = 2.0
_READ = 2**16
NOTHING_TOLD = Snapshot()

log = structlog.get_logger("justitia.sidecar")


def listen(path: Path) -> socket.socket:
    """A Unix socket for processes of the same user, in place of what an earlier process left there."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    return listener


class EngineChannel:
    """`hear` is told what the engine says of sequences, in order, and `on_snapshot` of itself: which process, and its
    state. `state` is the last snapshot of the engine that is there, or was. `instance` tells this process from those
    before it, `peer` the engine's, empty before the first; `vllm` is its version,
    and `unsupported` why it does not keep the order, if it does not. `on_hello` is called when it has said so.

    `gaps` has grown where the engine may have begun with sequences without having said so: a connection ended, its
    policy failed or came back, messages were dropped.
    """

    def __init__(self, hear: Callable[[Arrived | Admitted | Closed], None] = lambda message: None) -> None:
        self.hear = hear
        self.on_snapshot: Callable[[str, Snapshot], None] = lambda instance, snapshot: None
        self.on_hello: Callable[[], None] = lambda: None
        self.instance = uuid.uuid4().hex
        self.peer = ""
        self.vllm: str | None = None
        self.unsupported: str | None = None
        self.gaps = 0
        self.state = NOTHING_TOLD
        self.dropped = 0
        self.malformed = 0
        self._hello = encode(Hello(VERSION, self.instance))
        self._configuration: Configure | None = None
        self._engine: asyncio.StreamWriter | None = None
        self._greeted = False
        self._asked: list[asyncio.Future[Queue]] = []

    @property
    def connected(self) -> bool:
        return self._engine is not None and self._greeted

    @property
    def status(self) -> EngineSchedulerStatus:
        state = self.state
        return EngineSchedulerStatus(
            connected=self.connected,
            vllm=self.vllm,
            generation=None if state is NOTHING_TOLD else state.generation,
            dismissed=state.dismissed,
            failures=state.failures,
            last_failure=state.failure or None,
        )

    @property
    def telling(self) -> bool:
        """Whether the engine says with which sequences it begins: not while it has no policy."""
        return self.connected and not self.state.dismissed

    async def serve(self, listener: socket.socket) -> None:
        """Until cancelled."""
        server = await asyncio.start_unix_server(self._converse, sock=listener)
        async with server:
            await server.serve_forever()

    def configure(self, configuration: Configure) -> None:
        self._configuration = configuration
        self.send(configuration)

    def send(self, message: Message) -> None:
        """To the engine, if it is there and reads."""
        if self._engine is None:
            return
        if self._engine.transport.get_write_buffer_size() > LONGEST_BACKLOG:
            self.dropped += 1
            return
        if isinstance(message, Ticket):
            message = replace(message, sent=time.monotonic())
        self._engine.write(encode(message))

    async def queue(self, limit: int) -> Queue | None:
        """The engine's queue; None if it does not answer: it answers between two steps."""
        if self._engine is None:
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

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._engine is not None:
            self._engine.close()
        self._engine, self._greeted = writer, False
        writer.write(self._hello)
        if self._configuration is not None:
            writer.write(encode(self._configuration))
        lines = Lines()
        try:
            while data := await reader.read(_READ):
                for line in lines.feed(data):
                    self._receive(line)
        except (OSError, ChannelError) as error:
            log.warning("the engine's scheduler is not understood", reason=str(error))
        except asyncio.CancelledError:
            pass  # the event loop ends, and Python 3.11 would print a traceback for each connection
        finally:
            self.gaps += 1
            if self._engine is writer:
                self._engine = None
                log.warning("the engine's scheduler is gone")
            writer.close()

    def _receive(self, line: bytes) -> None:
        try:
            message = decode(line)
        except ChannelError as error:
            self.malformed += 1
            log.warning("the plug-in sent a malformed message", reason=str(error))
            return
        match message:
            case Arrived() | Admitted() | Closed():
                self.hear(message)
            case Snapshot():
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
                    self.state = NOTHING_TOLD
                self.peer, self.vllm, self._greeted = instance, about.vllm, True
                self.unsupported = about.unsupported
                log.info("the engine's scheduler has connected", **asdict(about))
                self.on_hello()
