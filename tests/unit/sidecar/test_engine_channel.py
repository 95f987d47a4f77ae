"""The sidecar's end of the channel: with the engine's real end over a real socket, and by itself."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from justitia_channel.messages import (
    VERSION,
    About,
    Admitted,
    AskQueue,
    Closed,
    Configure,
    Hello,
    Message,
    PlugInSnapshot,
    Queue,
    RunEnded,
    Ticket,
    WaitingRequest,
)
from justitia_channel.wire import ChannelError, encode
from justitia_engine.link import Link
from justitia_sidecar.engine.channel import LONGEST_BACKLOG, EngineChannel, listen
from justitia_vocabulary.units import ApplicationId, RunId, TenantId
from justitia_vocabulary.waiting import WaitingReason
from support.listening_channel import SilentConnection

CONFIGURATION = Configure(7, "vtc", "engine-time", {"gold": 3.0})


async def until(condition: object) -> None:
    """Let both ends work until it is so."""
    assert callable(condition)
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


@asynccontextmanager
async def pair(path: Path) -> AsyncIterator[tuple[EngineChannel, Link, list[Message]]]:
    heard: list[Message] = []
    channel = EngineChannel(heard.append)
    channel.configure(CONFIGURATION)
    serving = asyncio.create_task(channel.serve(listen(path)))
    link = Link(str(path), About("x"), lambda text: None)
    link.start(lambda: None)
    try:
        await until(lambda: channel.connected and len(link.inbox) >= 2)
        yield channel, link, heard
    finally:
        link.close()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def test_who_connects_gets_the_configuration_in_effect(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (_, link, _):
        assert isinstance(link.inbox[0], Hello)
        assert link.inbox[1] == CONFIGURATION


async def test_both_ends_hear_each_other_in_order(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (channel, link, heard):
        ends = [RunEnded(RunId(str(i))) for i in range(500)]
        for message in ends:
            channel.send(message)
        told = [Admitted("a", 0), Closed("a", 0, True, 1, 0, 2, 0, 3.0)] * 200
        for each in [*told, PlugInSnapshot(waiting=3)]:
            link.send(each)
        await until(lambda: len(link.inbox) >= 502 and channel.state.waiting)
        assert list(link.inbox)[2:] == ends
        assert heard == told
        assert channel.state.waiting == 3


async def test_the_queue_is_asked_for_and_answered_or_given_up(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (channel, link, _):
        row = WaitingRequest("a", WaitingReason.ENGINE_BUSY, 5)
        asked = asyncio.create_task(channel.queue(10))
        await until(lambda: AskQueue(10) in link.inbox)
        link.send(Queue(1, [row]))
        assert await asked == Queue(1, [row])


async def test_a_ticket_says_when_it_was_sent(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (channel, link, _):
        before = time.monotonic()
        channel.send(Ticket("a", TenantId("t"), ApplicationId("n/a"), RunId("r")))
        await until(lambda: len(link.inbox) == 3)
        ticket = link.inbox[2]
        assert isinstance(ticket, Ticket)
        assert ticket.sent is not None
        assert before <= ticket.sent <= time.monotonic()


async def test_what_another_engine_process_has_said_is_not_this_ones(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (channel, link, _):
        told: list[tuple[str, object]] = []
        channel.on_snapshot = lambda instance, state: told.append((instance, state))
        link.send(PlugInSnapshot(generation=7, failures=1, failure="x", dismissed=True))
        await until(lambda: channel.state.generation == 7)
        assert told == [(channel.peer, channel.state)]
        assert (channel.status.generation, channel.status.dismissed, channel.status.vllm) == (7, True, "x")
        link.close()
        channel.disconnect()
        await until(lambda: not channel.connected)
        assert channel.status.generation == 7
        other = Link(str(tmp_path / "s"), About("y"), lambda text: None)
        other.start(lambda: None)
        await until(lambda: channel.connected)
        status = channel.status
        assert (status.generation, status.dismissed, status.last_failure, status.vllm) == (None, False, None, "y")
        other.close()


async def test_an_engine_that_comes_back_gets_the_configuration_again(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (channel, link, _):
        link.inbox.clear()
        channel.disconnect()
        await until(lambda: CONFIGURATION in link.inbox)


async def test_a_sidecar_that_comes_back_is_found(tmp_path: Path) -> None:
    path, link = tmp_path / "s", Link(str(tmp_path / "s"), About(), lambda text: None)
    link.start(lambda: None)
    for generation in (1, 2):
        channel = EngineChannel()
        configuration = Configure(generation, "vtc", "engine-time", {})
        channel.configure(configuration)
        serving = asyncio.create_task(channel.serve(listen(path)))
        await until(lambda told=configuration: told in link.inbox)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        channel.disconnect()
    link.close()


def test_what_the_plug_in_does_not_read_is_dropped_and_counted() -> None:
    channel, connection = EngineChannel(), SilentConnection()
    channel.joined(connection)
    connection.written.clear()
    ends = [RunEnded(RunId(str(number))) for number in range(3)]
    for message, backlog in zip(ends, (LONGEST_BACKLOG, LONGEST_BACKLOG + 1, 0), strict=True):
        connection.backlog = backlog
        channel.send(message)
    assert connection.written == [ends[0], ends[2]]
    assert channel.dropped == 1


def test_a_plug_in_that_connects_takes_the_place_of_the_one_before() -> None:
    channel, first, second = EngineChannel(), SilentConnection(), SilentConnection()
    channel.joined(first)
    channel.joined(second)
    channel.receive(encode(Hello(VERSION, "second")))
    channel.left(first)
    assert (first.closed, second.closed) == (True, False)
    assert (channel.connected, channel.peer, channel.gaps) == (True, "second", 1)
    channel.left(second)
    assert (channel.connected, channel.gaps) == (False, 2)


def test_a_malformed_message_is_counted_and_passed_over() -> None:
    heard: list[Message] = []
    channel = EngineChannel(heard.append)
    for line in (b"{", encode(Admitted("a", 0)), b'{"kind": "no such"}'):
        channel.receive(line)
    assert heard == [Admitted("a", 0)]
    assert channel.malformed == 2


def test_a_plug_in_of_another_version_is_refused() -> None:
    channel = EngineChannel()
    channel.joined(SilentConnection())
    with pytest.raises(ChannelError, match=f"it speaks version {VERSION + 1}, not {VERSION}: update the older"):
        channel.receive(encode(Hello(VERSION + 1, "engine")))
    assert not channel.connected
