"""A client that asks and does not read: it misbehaves on purpose."""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

SMALL = 4096
"""Bytes of the receive buffer."""


@contextmanager
def stalled_readers(url: str, key: str, body: Mapping[str, Any], number: int) -> Iterator[list[socket.socket]]:
    """So many connections, each with one request, of which nothing is read."""
    address, _, port = url.removeprefix("http://").partition(":")
    content = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    with ExitStack() as stack:
        yield [stack.enter_context(_asking(address, int(port), head.encode() + content)) for _ in range(number)]


@contextmanager
def _asking(address: str, port: int, request: bytes) -> Iterator[socket.socket]:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        client.connect((address, port))
        client.sendall(request)
        yield client
