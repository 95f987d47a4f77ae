"""A tenant opens as many connections as there are seats, and keeps them, idle or with bodies that do not come."""

import socket
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path

import pytest

from support.sidecar_client import KEY
from support.sidecar_process import serving

OTHER = b"sk-of-another-tenant"
CONNECTIONS = 500
"""More than there are seats."""
AUTHORIZED = b"host: a\r\nauthorization: Bearer " + KEY + b"\r\n"
IDLE = b"GET /nothing HTTP/1.1\r\n" + AUTHORIZED + b"\r\n"
UNDER_WAY = b"POST /v1/completions HTTP/1.1\r\n" + AUTHORIZED + b"content-length: 9\r\nexpect: 100-continue\r\n\r\n"


def _status(connection: socket.socket, request: bytes) -> int:
    connection.sendall(request)
    with HTTPResponse(connection) as answer:
        answer.begin()
        answer.read()
        return answer.status


@pytest.mark.parametrize("request_line", [IDLE, UNDER_WAY], ids=["idle", "under way"])
def test_another_tenant_is_served_and_keeps_its_connection(tmp_path: Path, request_line: bytes) -> None:
    with serving(tmp_path, {KEY: "gold", OTHER: "silver"}) as running, ExitStack() as stack:
        kept = stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=60))
        assert _status(kept, IDLE.replace(KEY, OTHER)) == 404
        for _ in range(CONNECTIONS):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=60))
            if request_line is IDLE:
                assert _status(one, IDLE) == 404
            else:
                one.sendall(UNDER_WAY)
                assert one.recv(4096).startswith((b"HTTP/1.1 100", b"HTTP/1.1 429"))
        assert running.status(running.port, "/v1/models", OTHER) == 503, "there is no engine"
        assert _status(kept, IDLE.replace(KEY, OTHER)) == 404
