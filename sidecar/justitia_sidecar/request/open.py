"""Requests that are open in the sidecar, and their end: draining waits for those that the engine has begun."""

import asyncio

import structlog

from justitia_sidecar.refusals import RefusalError, draining
from justitia_sidecar.request.waiting import Waiting

log = structlog.get_logger("justitia.sidecar")


class OpenRequests:
    """`waits` are those of requests that have not begun."""

    def __init__(self) -> None:
        self.count = 0
        self.draining = False
        self.waits: set[Waiting] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def opened(self) -> None:
        self.count += 1
        self._idle.clear()

    def closed(self) -> None:
        self.count -= 1
        if self.count == 0:
            self._idle.set()

    def refuse_waiting(self, refusal: RefusalError) -> None:
        for wait in list(self.waits):
            wait.refuse(refusal)

    async def drain(self) -> None:
        """Refuse what is new and what still waits; return when the started requests are over."""
        if not self.draining:
            self.draining = True
            log.info("draining", open_requests=self.count)
            self.refuse_waiting(draining())
        await self._idle.wait()
