"""A head has to be whole, and a body to go on, within a time. Real sockets to a server in this process."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from justitia_sidecar.ports import connections
from justitia_sidecar.ports.serving import Server, server_config
from justitia_sidecar.request.asgi import Receive, Scope, Send, send_answer

HEAD = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        more = message["more_body"]
    await send_answer(send, 200, [], body)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = Server(server_config(echo))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        yield listening.getsockname()[1]
        server.should_exit = True
        await serving


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection is over, be it reset: that depends on what the server has not read by then."""
    received = b""
    with suppress(ConnectionResetError):
        while data := await reader.read(1000):
            received += data
    return received


@pytest.mark.parametrize("limit", ["HEAD_SECONDS", "BODY_SECONDS"])
async def test_what_does_not_go_on_is_closed(port: int, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, limit, 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD if limit == "HEAD_SECONDS" else HEAD + b"\r\n{")
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


async def test_a_byte_at_a_time_does_not_keep_a_head_open(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD)
    closed = asyncio.create_task(rest_of(reader))
    until = time.monotonic() + 10
    while not closed.done() and time.monotonic() < until:
        writer.write(b"a")
        await asyncio.wait({closed}, timeout=0.01)
    assert closed.done()
    assert closed.result() == b""
    writer.close()


async def test_a_body_that_goes_on_is_waited_for(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD + b"\r\n{")
    writer.write(b"}")
    async with asyncio.timeout(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
