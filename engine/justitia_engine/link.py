"""The Unix socket to the sidecar, served by two threads of its own, so that nothing in a step touches a socket.

The reader puts what comes into `inbox`; the sender takes what is in `outbox`, every `PACE` seconds. Both are bounded:
beyond `MOST` messages the oldest are dropped, and counted. When the connection ends, the link connects again.
"""

import socket
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from justitia_scheduling.channel import (
    VERSION,
    ChannelError,
    Hello,
    Lines,
    Message,
    decode,
    encode,
)
from justitia_scheduling.model import Seconds

MOST = 50_000
PACE: Seconds = 0.005
RETRY: Seconds = 0.5
_READ = 1 << 16

Log = Callable[[str], None]


class Link:
    """`about` is what the engine says of itself in its Hello."""

    def __init__(self, path: str, about: dict[str, Any], log: Log) -> None:
        self.inbox: deque[Message] = deque(maxlen=MOST)
        self.outbox: deque[Message] = deque(maxlen=MOST)
        self.connected = False
        self.malformed = 0
        self.dropped_in = 0
        self.dropped_out = 0
        self._path = path
        self._hello = encode(Hello(VERSION, uuid.uuid4().hex, about))
        self._log = log
        self._closed = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._serve, name="justitia-link", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def send(self, message: Message) -> None:
        """From the engine's thread: costs an append."""
        self.dropped_out += len(self.outbox) == MOST
        self.outbox.append(message)

    # In the link's own threads.

    def _serve(self) -> None:
        """Connect, converse, connect again."""
        told = ""
        while not self._closed.is_set():
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                    peer.connect(self._path)
                    told = ""
                    self._converse(peer)
            except (OSError, ChannelError) as error:
                if str(error) != told:
                    self._log(f"no sidecar at {self._path}: {error}; requests without tickets have the lowest weight")
                    told = str(error)
            self._closed.wait(RETRY)

    def _converse(self, peer: socket.socket) -> None:
        peer.sendall(self._hello)
        over = threading.Event()
        sender = threading.Thread(target=self._send, args=(peer, over), name="justitia-link-out", daemon=True)
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
            self._log(f"the sidecar sent {error}")
            return
        if isinstance(message, Hello) and message.version != VERSION:
            raise ChannelError(f"the sidecar speaks version {message.version}, not {VERSION}", fatal=True)
        self.dropped_in += len(self.inbox) == MOST
        self.inbox.append(message)

    def _send(self, peer: socket.socket, over: threading.Event) -> None:
        while not over.wait(PACE):
            lines = []
            for _ in range(len(self.outbox)):
                try:
                    lines.append(encode(self.outbox.popleft()))
                except ChannelError as error:
                    self.dropped_out += 1
                    self._log(f"not told to the sidecar: {error}")
            try:
                peer.sendall(b"".join(lines))
            except OSError:
                return
