"""A client without a key: what it makes a sidecar's process hold, and whom it keeps out."""

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.sidecar_client import KEY
from support.sidecar_process import Running, serving

MIB = 2**20


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("sidecar")) as running:
        yield running


@pytest.mark.parametrize("size", [8, 64])
def test_header_lines_are_not_collected(running: Running, size: int) -> None:
    before = running.process.memory_info().rss
    with socket.create_connection(("127.0.0.1", running.port)) as client:
        client.settimeout(60)
        client.sendall(b"GET / HTTP/1.1\r\n")
        sent = 0
        try:
            while sent < size * MIB:
                sent += client.send(b"a: b\r\n" * 10_000)
        except OSError:
            pass
        grown = running.process.memory_info().rss - before
        print(f"{sent / MIB:.1f} MiB taken, {grown / MIB:.1f} MiB held")  # noqa: T201
        assert grown < 16 * MIB


def test_one_line_without_an_end_is_not_collected(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.port)) as client:
        client.settimeout(60)
        with pytest.raises(OSError):  # noqa: PT011
            client.sendall(b"GET / HTTP/1.1\r\na: " + b"b" * (64 * MIB))


def test_no_body_is_read(running: Running) -> None:
    before = running.process.memory_info().rss
    with socket.create_connection(("127.0.0.1", running.port)) as client:
        client.settimeout(10)
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (64 * MIB))
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 64 * MIB:
                sent += client.send(b"x" * MIB)
    assert sent < 32 * MIB
    assert running.process.memory_info().rss - before < 8 * MIB


def test_idle_connections_keep_nobody_out(running: Running) -> None:
    with ExitStack() as stack:
        for _ in range(1500):
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port)))
        assert running.status(running.admin, "/healthz") == 200
        assert running.status(running.port, "/v1/models", KEY) == 503, "there is no engine"


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
def test_nothing_is_told(running: Running, path: str) -> None:
    assert running.status(running.port, path) == 401


@pytest.mark.parametrize("depth", [5_000, 500_000])
def test_deep_json_is_refused(running: Running, depth: int) -> None:
    body = b'{"model":"m","prompt":"a","metadata":{"a":' + b"[" * depth + b"]" * depth + b"}}"
    assert running.status(running.port, "/v1/completions", KEY, body) == 400
