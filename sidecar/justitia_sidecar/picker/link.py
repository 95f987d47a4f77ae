"""The picker's connection to its sidecar. It connects again after either side was gone."""

import asyncio
import contextlib
from collections.abc import Callable
from itertools import count
from pathlib import Path

import structlog

from justitia_sidecar.pool.asks import Answer, Ask, AskError, HandedOn, Over, Question, answers, encode, read
from justitia_vocabulary.units import Seconds

AGAIN_AFTER: Seconds = 0.2
ANSWER_WITHIN: Seconds = 2.0
"""The sidecar answers at once, unless its loop is busy."""

log = structlog.get_logger("justitia.picker")


class SidecarGoneError(Exception):
    """The sidecar does not answer."""


class SidecarLink:
    """`ready` says whether the sidecar is connected."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids = count()
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._write: Callable[[bytes], None] | None = None

    @property
    def ready(self) -> bool:
        return self._write is not None

    async def connect_forever(self) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_unix_connection(str(self._path))
                await self._converse(reader, writer)
            await asyncio.sleep(AGAIN_AFTER)

    async def ask(self, path: str, size: int, headers: dict[str, str], allowed: list[str] | None) -> Answer:
        """Which pod gets a request. It counts until `over`. Raises SidecarGoneError."""
        if self._write is None:
            raise SidecarGoneError
        id, answer = next(self._ids), asyncio.get_running_loop().create_future()
        self._asked[id] = answer
        self._say(Ask(id, path, size, headers, allowed))
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                found: Answer = await answer
        except BaseException as error:
            self.over(id)
            if isinstance(error, TimeoutError):
                raise SidecarGoneError from None
            raise
        finally:
            del self._asked[id]
        return found

    def handed_on(self, id: int) -> None:
        """The gateway has the whole request."""
        self._say(HandedOn(id))

    def over(self, id: int) -> None:
        self._say(Over(id))

    def _say(self, question: Question) -> None:
        if self._write is not None:
            self._write(encode(question))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._write = writer.write
        try:
            while True:
                answer = await read(reader, answers)
                if (asked := self._asked.get(answer.id)) is not None and not asked.done():
                    asked.set_result(answer)
        except AskError as error:
            log.error("the sidecar is not understood: the connection is closed", reason=str(error))
        finally:
            self._write = None
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_exception(SidecarGoneError())
            writer.close()
