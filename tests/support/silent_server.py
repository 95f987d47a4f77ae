"""A server that takes connections and never finishes an answer: it misbehaves on purpose."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

BEGUN = (
    b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nETag: "e"\r\nLast-Modified: Mon, 23 Nov 2026 01:56:59 GMT\r\n\r\nbegun'
)
"""An answer's beginning."""


@dataclass(frozen=True)
class SilentServer:
    """`taken` is set with its first connection."""

    address: str
    taken: threading.Event


@contextmanager
def silent_server(says: bytes = b"") -> Iterator[SilentServer]:
    """A server that sends of each answer what it `says`, and then nothing."""
    taken = threading.Event()
    held: list[socket.socket] = []

    def take() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            taken.set()
            held.append(connection)
            connection.sendall(says)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        try:
            yield SilentServer(f"http://127.0.0.1:{listening.getsockname()[1]}", taken)
        finally:
            # Only then does a thread that waits for a connection notice.
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in held:
                each.close()
