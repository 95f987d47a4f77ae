"""The Unix socket to the sidecar, served by two threads of its own, so that nothing in a step touches a socket.

The reader puts what comes into `inbox`; the sender takes what is in `outbox`, every `PACE` seconds, and lets the desk
hear what no step has taken. Both are bounded: beyond `MOST` messages the oldest are dropped, and counted. When the
connection ends, the link connects again.
"""

import contextlib
import socket
import threading
import uuid
from collections import deque
from collections.abc import Callable

from justitia_channel.messages import VERSION, About, Hello, Message
from justitia_channel.wire import ChannelError, Lines, decode, encode
from justitia_vocabulary.units import Seconds

MOST = 50_000
PACE: Seconds = 0.05
"""No shorter, because each time the thread takes the interpreter from the engine's step."""
RETRY: Seconds = 0.5
_READ = 1 << 16
_MOST_AT_ONCE = 1000

Log = Callable[[str], None]


class Link:
    """Sends `outbox` and fills `inbox`. `about` is what the engine says of itself in its Hello."""

    def __init__(self, path: str, about: About, log: Log) -> None:
        self.inbox: deque[Message] = deque(maxlen=MOST)
        self.outbox: deque[Message] = deque(maxlen=MOST)
        self.connected = False
        self.malformed = 0
        self.dropped_in = 0
        self.dropped_out = 0
        self._path = path
        self._hello = encode(Hello(VERSION, uuid.uuid4().hex, about))
        self._log = log
        self._logged: set[str] = set()
        self._closed = threading.Event()

    def start(self, between: Callable[[], None]) -> None:
        """`between` is called about every `PACE` seconds while there is a sidecar, by the sender."""
        threading.Thread(target=self._serve, args=(between,), name="justitia-link", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def send(self, message: Message) -> None:
        """Called in the engine's thread, which it costs an append."""
        self.dropped_out += len(self.outbox) == MOST
        self.outbox.append(message)

    # In the link's own threads.

    def _serve(self, between: Callable[[], None]) -> None:
        """Connect, converse, connect again."""
        while not self._closed.is_set():
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                    peer.connect(self._path)
                    self._converse(peer, between)
            except (OSError, ChannelError) as error:
                problem = f"no sidecar at {self._path}: {error}; requests without tickets have the lowest weight"
                self._log_once(problem, problem)
            self._closed.wait(RETRY)

    def _converse(self, peer: socket.socket, between: Callable[[], None]) -> None:
        peer.sendall(self._hello)
        over = threading.Event()
        sender = threading.Thread(target=self._send, args=(peer, over, between), name="justitia-link-out", daemon=True)
        sender.start()
        self.connected = True
        try:
            lines = Lines()
            while data := peer.recv(_READ):
                for line in lines.feed(data):
                    self._receive(line)
        finally:
            self.connected = False
            over.set()
            sender.join()

    def _receive(self, line: bytes) -> None:
        try:
            message = decode(line)
        except ChannelError as error:
            self.malformed += 1
            self._log_once("malformed", f"{error} came from the sidecar")
            return
        if isinstance(message, Hello):
            if message.version != VERSION:
                raise ChannelError(f"the sidecar speaks version {message.version}, not {VERSION}", fatal=True)
            self._logged.clear()
        self.dropped_in += len(self.inbox) == MOST
        self.inbox.append(message)

    def _send(self, peer: socket.socket, over: threading.Event, between: Callable[[], None]) -> None:
        """Never waits for a peer that does not read: what it has not taken is offered again, and the rest collects."""
        left = memoryview(b"")
        while not (over.wait(PACE) or self._closed.is_set()):
            between()
            left = left or memoryview(self._lines())
            try:
                left = left[peer.send(left, socket.MSG_DONTWAIT) :] if left else left
            except BlockingIOError:
                continue
            except OSError:
                break
        with contextlib.suppress(OSError):  # the peer may be gone already
            peer.shutdown(socket.SHUT_RDWR)  # so that the reader hears of it too

    def _lines(self) -> bytes:
        """The next messages to send, at most `_MOST_AT_ONCE`."""
        lines = []
        for _ in range(min(len(self.outbox), _MOST_AT_ONCE)):
            try:
                lines.append(encode(self.outbox.popleft()))
            except (ChannelError, TypeError) as error:
                self.dropped_out += 1
                self._log_once("unsent", f"not told to the sidecar: {error}")
        return b"".join(lines)

    def _log_once(self, kind: str, problem: str) -> None:
        """Log one problem of each kind, until another sidecar has come."""
        if kind not in self._logged:
            self._logged.add(kind)
            self._log(problem)
