"""The sidecar's end of the channel with the engine's real end, over a real socket."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from justitia_channel.messages import (
    About,
    Admitted,
    AskQueue,
    Closed,
    Configure,
    Hello,
    Message,
    Queue,
    RunEnded,
    Snapshot,
    Ticket,
    WaitingRequest,
)
from justitia_engine.link import Link
from justitia_sidecar.engine.channel import EngineChannel, listen
from justitia_vocabulary.units import ApplicationId, RunId, TenantId
from justitia_vocabulary.waiting import WaitingReason

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


async def test_who_connects_is_told_the_configuration_in_force(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (_, link, _):
        assert isinstance(link.inbox[0], Hello)
        assert link.inbox[1] == CONFIGURATION


async def test_both_ends_hear_each_other_in_order(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (channel, link, heard):
        ends = [RunEnded(RunId(str(i))) for i in range(500)]
        for message in ends:
            channel.send(message)
        told = [Admitted("a", 0), Closed("a", 0, True, 1, 0, 2, 0, 3.0)] * 200
        for each in [*told, Snapshot(waiting=3)]:
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


async def test_what_another_engine_process_has_told_is_not_this_ones(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (channel, link, _):
        told: list[tuple[str, object]] = []
        channel.on_snapshot = lambda instance, state: told.append((instance, state))
        link.send(Snapshot(generation=7, failures=1, failure="x", dismissed=True))
        await until(lambda: channel.state.generation == 7)
        assert told == [(channel.peer, channel.state)]
        assert (channel.status.generation, channel.status.dismissed, channel.status.vllm) == (7, True, "x")
        link.close()
        channel._engine.close()  # type: ignore[union-attr]
        await until(lambda: not channel.connected)
        assert channel.status.generation == 7
        other = Link(str(tmp_path / "s"), About("y"), lambda text: None)
        other.start(lambda: None)
        await until(lambda: channel.connected)
        status = channel.status
        assert (status.generation, status.dismissed, status.last_failure, status.vllm) == (None, False, None, "y")
        other.close()


async def test_an_engine_that_comes_back_is_told_again(tmp_path: Path) -> None:
    async with pair(tmp_path / "s") as (channel, link, _):
        link.inbox.clear()
        assert channel._engine is not None
        channel._engine.close()
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
        assert channel._engine is not None
        channel._engine.close()
    link.close()
