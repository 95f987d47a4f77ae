"""The door for the endpoint picker beside this sidecar: says which pod gets a request that a gateway asks about.

A request is picked before it is read, and by its headers alone. Its key is looked at, and no request is refused for it:
the sidecar that gets the request authenticates it. Without a valid key it counts as nothing, so that nobody who has
none makes an engine look full. Nor does a body that its client withholds, after a while.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum

import structlog

from justitia_sidecar.pool.asks import (
    Answer,
    Ask,
    AskError,
    HandedOn,
    Over,
    Pick,
    Question,
    Refuse,
    encode,
    questions,
    read,
)
from justitia_sidecar.pool.peers import Expected
from justitia_sidecar.pool.picking import Picking
from justitia_sidecar.refusals import RefusalError, draining, engine_unavailable
from justitia_sidecar.request.expecting import expected_unread
from justitia_sidecar.request.incoming import completion_path
from justitia_sidecar.request.parts import Parts
from justitia_vocabulary.units import Seconds, TenantId

COMES_WITHIN: Seconds = 0.1
"""The time after which a request that a gateway has sent here has come in."""
HANDED_ON_WITHIN: Seconds = 10.0
"""A request whose client takes longer to send it counts again when the engine's sidecar has it."""

NOTHING = Expected(0, 0)

log = structlog.get_logger("justitia.sidecar")


class Chosen(StrEnum):
    """Where a request was sent that came through a gateway. The label of the metric."""

    HERE = "here"
    ELSEWHERE = "elsewhere"
    NOWHERE = "nowhere"


class PickDoor:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._picking = Picking(parts.peers)

    async def serve(self, listener: socket.socket) -> None:
        """Answer whoever connects, until cancelled."""
        server = await asyncio.start_unix_server(self._converse, sock=listener)
        async with server:
            await server.serve_forever()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        picker = PickerConversation(self._parts, self._picking, writer.write)
        try:
            while True:
                picker.hear(await read(reader, questions))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except AskError as error:
            log.error("the endpoint picker is not understood: its connection is closed", reason=str(error))
        finally:
            picker.gone()
            writer.close()


class PickerConversation:
    """What one picker has asked, and what of it still counts."""

    def __init__(self, parts: Parts, picking: Picking, write: Callable[[bytes], object]) -> None:
        self._parts = parts
        self._picking = picking
        self._write = write
        self._open: dict[int, Counted] = {}

    def hear(self, question: Question) -> None:
        match question:
            case Ask(id):
                self._end(id)
                self._write(encode(self._answer(question)))
            case HandedOn(id):
                if (counted := self._open.get(id)) is not None:
                    counted.handed_on()
            case Over(id):
                self._end(id)

    def gone(self) -> None:
        """The picker has gone: nobody says when its requests are over."""
        for counted in self._open.values():
            counted.end()
        self._open.clear()

    def _end(self, id: int) -> None:
        if (counted := self._open.pop(id, None)) is not None:
            counted.end()

    def _answer(self, ask: Ask) -> Answer:
        parts = self._parts
        try:
            parts.current.configured()
            tenant, asked = self._asked(ask)
            picked = self._picking.pick(asked, None if ask.allowed is None else frozenset(ask.allowed))
            if picked is None:
                raise draining() if parts.open.draining else engine_unavailable()
        except RefusalError as refusal:
            parts.metrics.picks.labels(Chosen.NOWHERE).inc()
            parts.metrics.refusals.labels(refusal.refusal.value).inc()
            return Refuse(ask.id, refusal.refusal.status, refusal.headers, refusal.body)
        parts.metrics.picks.labels(Chosen.HERE if picked.peer is None else Chosen.ELSEWHERE).inc()
        counts = ExitStack()
        counts.enter_context(self._picking.counted(picked, asked))
        self._open[ask.id] = Counted(counts, here=picked.peer is None)
        return Pick(ask.id, picked.endpoint, tenant or "")

    def _asked(self, ask: Ask) -> tuple[TenantId | None, Expected]:
        """Whose request it is, and what is expected of it. Nothing, where the sidecar that gets it will refuse it."""
        parts = self._parts
        headers = {name.encode(): value.encode("latin-1", "replace") for name, value in ask.headers.items()}
        tenant = None
        try:
            tenant = parts.current.tenant(headers.get(b"authorization"))
            found = completion_path(ask.path)
            if found is None:
                return tenant, NOTHING
            application = parts.current.configured().directory.application(tenant, found.application, headers).id
            return tenant, expected_unread(parts, tenant, application, headers, ask.size)
        except RefusalError:
            return tenant, NOTHING


class Counted:
    """A request that counts as sent, until `end`, or until something else counts it."""

    def __init__(self, counts: ExitStack, *, here: bool) -> None:
        self._counts = counts
        self._here = here
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(HANDED_ON_WITHIN, self._counts.close)

    def handed_on(self) -> None:
        self._disarm()
        if self._here:
            self._timer = self._loop.call_later(COMES_WITHIN, self._counts.close)

    def end(self) -> None:
        self._disarm()
        self._counts.close()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
