"""What a tenant sends at once does not fill the server of the engine, which takes requests in order of arrival."""

import asyncio
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import aiohttp

from justitia_channel.messages import VERSION, Arrived, Hello, Ticket
from justitia_channel.wire import decode, encode
from support.asking import ask
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.serving import KEYS, eventually, running_sidecar

FLOOD = 90


class SchedulersEnd:
    """The scheduler's end of the channel. It keeps tickets, and says of each that comes while `arrives` is set that its
    request has arrived.
    """

    def __init__(self, socket: Path) -> None:
        self.tickets: list[Ticket] = []
        self.arrives = False
        self._socket = socket

    async def serve(self) -> None:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        with closing(writer):
            writer.write(encode(Hello(VERSION, "engine")))
            async for line in reader:
                message = decode(line)
                if isinstance(message, Ticket):
                    self.tickets.append(message)
                    if self.arrives:
                        writer.write(encode(Arrived(message.key)))

    def place_of(self, tenant: str) -> int | None:
        return next((i for i, ticket in enumerate(self.tickets) if ticket.tenant == tenant), None)


async def seen(what: str, check: Callable[[], bool]) -> None:
    await asyncio.to_thread(eventually, what, check)


async def test_another_tenant_passes_a_flood_that_is_on_its_way(tmp_path: Path) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with MisbehavingEngine().serving() as engine, aiohttp.ClientSession(connector=connector) as client:
        engine.behaviour = Misbehaviour.SILENT
        socket = tmp_path / "engine.sock"
        starting = running_sidecar(tmp_path / "sidecar", engine.url, engine_socket=socket)
        sidecar = await asyncio.to_thread(starting.__enter__)
        scheduler = SchedulersEnd(socket)
        channel = asyncio.create_task(scheduler.serve())
        try:
            await seen("the plug-in is there", lambda: sidecar.status()["plugIn"]["connected"])
            flood = [asyncio.create_task(ask(client, sidecar, KEYS["silver"])) for _ in range(FLOOD)]
            await seen("the flood is there", lambda: sidecar.tenant("silver")["queued"] == FLOOD)
            other = asyncio.create_task(ask(client, sidecar, KEYS["gold"]))
            await seen("the other one is sent", lambda: scheduler.place_of("gold") is not None)
            place = scheduler.place_of("gold")
            assert place is not None
            assert place < FLOOD, "some of the flood were still kept back"
            scheduler.arrives = True
            await seen("all are sent", lambda: len(scheduler.tickets) == FLOOD + 1)
            engine.go_on.set()
            assert await asyncio.gather(*flood, other) == [200] * (FLOOD + 1)
        finally:
            channel.cancel()
            with suppress(asyncio.CancelledError):
                await channel
            await asyncio.to_thread(starting.__exit__, None, None, None)
