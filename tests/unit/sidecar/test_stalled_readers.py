"""Real sockets between a client and the server, and to an engine that says much; the clock is the test's."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.ports.client_connection import LONGEST_LOOK, STALL_SECONDS, ClientConnection
from justitia_sidecar.ports.public import PublicApp
from justitia_sidecar.ports.serving import Server, server_config
from justitia_sidecar.service import Sidecar
from support.misbehaving_engine import MUCH, MisbehavingEngine, Misbehaviour
from support.sidecar_client import BODY, KEY, assert_nothing_left, engine_answers, give_key, pool

SMALL = 4096


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Door:
    """A server's port."""

    def __init__(self, sidecar: Sidecar, server: Server, clock: Clock, port: int) -> None:
        self.sidecar, self.server, self._clock, self._port = sidecar, server, clock, port

    @asynccontextmanager
    async def asking(
        self, stream: bool = True, times: int = 1, buffer: int = SMALL
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A client whose request is sent."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.connect(("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=client, limit=buffer)
        body = json.dumps(BODY | {"max_tokens": MUCH, "stream": stream}).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
        writer.write((head % (KEY, len(body)) + body) * times)
        try:
            yield reader, writer
        finally:
            writer.close()

    def look(self, seconds: float) -> None:
        """So much time passes, in which it is looked each second."""
        for _ in range(int(seconds)):
            self._clock.now += 1
            self.server.look()

    def pause(self, seconds: float) -> None:
        """So much time passes, in which nobody looks."""
        self._clock.now += seconds
        self.server.look()

    @property
    def congested(self) -> int:
        """How many connections take nothing."""
        connections = self.server.server_state.connections
        return sum(isinstance(each, ClientConnection) and each.congested for each in connections)

    def outcomes(self) -> dict[str, float]:
        metric = self.sidecar.parts.metrics.requests.collect()[0]
        return {s.labels["outcome"]: s.value for s in metric.samples if s.name.endswith("_total")}

    @property
    def stalled(self) -> float:
        return sum(
            s.value for s in self.sidecar.parts.metrics.stalled.collect()[0].samples if s.name.endswith("_total")
        )


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with MisbehavingEngine().serving() as engine:
        yield engine


@pytest.fixture
async def door(engine: MisbehavingEngine) -> AsyncIterator[Door]:
    clock = Clock()
    async with EngineClient.session() as session:
        sidecar = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), clock)
        give_key(sidecar)
        sidecar.parts.current.put_config(pool())
        await engine_answers(sidecar)
        server = Server(server_config(PublicApp(sidecar.parts)), clock)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            yield Door(sidecar, server, clock, listening.getsockname()[1])
            server.should_exit = True
            await serving


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.mark.parametrize("behaviour", [Misbehaviour.SAYS_MUCH, Misbehaviour.SAYS_MUCH_AT_ONCE])
async def test_a_finished_answer_that_nobody_reads_is_ended_after_the_limit(
    door: Door, engine: MisbehavingEngine, behaviour: Misbehaviour
) -> None:
    engine.behaviour = behaviour
    async with door.asking(stream=behaviour is Misbehaviour.SAYS_MUCH) as (reader, _):
        await until(lambda: door.outcomes().get("completed"))
        assert door.sidecar.parts.current.configured().admission.held == 0
        await until(lambda: door.congested)
        assert door.sidecar.parts.held.total > 0
        door.look(STALL_SECONDS)
        assert door.sidecar.parts.open.count == 1
        door.look(1)
        with pytest.raises(ConnectionError):
            await reader.read()
    await until(lambda: door.sidecar.parts.open.count == 0)
    assert (door.stalled, door.outcomes(), door.sidecar.parts.held.total) == (1, {"completed": 1}, 0)
    assert_nothing_left(door.sidecar)


async def test_what_the_engine_still_works_on_is_aborted_and_charged(door: Door, engine: MisbehavingEngine) -> None:
    engine.behaviour = Misbehaviour.SAYS_MUCH_AND_HANGS
    async with door.asking():
        await until(lambda: door.sidecar.parts.held.total > 0)
        admission = door.sidecar.parts.current.configured().admission
        await until(lambda: [t.account.produced for t in admission.books.requests.values()] == [MUCH - 1])
        await until(lambda: door.congested)
        door.look(STALL_SECONDS + 1)
        async with asyncio.timeout(60):
            await engine.closed.wait()
    await until(lambda: door.sidecar.parts.open.count == 0)
    assert (door.stalled, door.outcomes()) == (1, {"stalled": 1})
    assert sum(admission.policy.service.values()) == 3 + 2 * (MUCH - 1)
    assert_nothing_left(door.sidecar)


async def test_a_slow_reader_gets_all_of_its_answer(door: Door, engine: MisbehavingEngine) -> None:
    engine.behaviour = Misbehaviour.SAYS_MUCH
    async with door.asking(buffer=2**16) as (reader, _):
        await until(lambda: door.congested)
        everything = b""
        while door.sidecar.parts.held.total > 2**20:
            everything += await reader.readexactly(2**19)
            door.look(STALL_SECONDS - 1)
        while not everything.endswith(b"0\r\n\r\n"):
            everything += await reader.read(2**20)
        assert everything.count(b"data: ") == MUCH + 1
    assert door.stalled == 0


async def test_a_process_that_stood_still_blames_no_client(door: Door, engine: MisbehavingEngine) -> None:
    engine.behaviour = Misbehaviour.SAYS_MUCH
    async with door.asking():
        await until(lambda: door.congested)
        door.look(STALL_SECONDS - LONGEST_LOOK)
        door.pause(3600)
        assert door.server.server_state.connections
        door.look(LONGEST_LOOK)
        await until(lambda: not door.server.server_state.connections)


async def test_the_second_request_of_a_stalled_connection_waits_for_no_head(
    door: Door, engine: MisbehavingEngine
) -> None:
    """The first answer's rest fits the server's buffer, so the second request is taken up behind it."""
    engine.behaviour = Misbehaviour.SAYS_MUCH
    async with door.asking(times=2) as (reader, _):
        await until(lambda: len(engine.received) == 1 and door.outcomes().get("completed") == 1)
        while len(engine.received) < 2:
            await reader.read(2**16)
        await until(lambda: door.outcomes().get("completed") == 2)
        assert door.sidecar.parts.current.configured().admission.held == 0


async def test_the_fullest_outbox_of_whom_holds_most_gives_way(door: Door, engine: MisbehavingEngine) -> None:
    engine.behaviour = Misbehaviour.SAYS_MUCH
    door.sidecar.parts.held.capacity = MUCH * 2**16
    async with door.asking(), door.asking(), door.asking():
        await until(lambda: door.stalled == 2)
        assert 0 < door.sidecar.parts.held.total <= MUCH * 2**16
        await until(lambda: door.sidecar.parts.current.configured().admission.held == 0)
