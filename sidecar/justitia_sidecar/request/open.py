"""Counts the open requests, and drains: refuses those that wait, and waits for those that have begun."""

import asyncio

import structlog

from justitia_sidecar.refusals import RefusalError, draining
from justitia_sidecar.request.waiting import Waiting

log = structlog.get_logger("justitia.sidecar")


class OpenRequests:
    """The open requests. `waits` belong to those that have not begun."""

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
        """Refuse what is new and what still waits. Returns when the requests that have begun are over."""
        if not self.draining:
            self.draining = True
            log.info("draining: new and waiting requests are refused", open_requests=self.count)
            self.refuse_waiting(draining())
        await self._idle.wait()
