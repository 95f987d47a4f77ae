"""A request's wait, here or inside the engine, and its two ends before its time: the queue's timeout, and draining.

Around all that a request does until it has begun: what is under way is cancelled, so a connection to the engine is
closed, and the engine drops the request.
"""

import asyncio
from types import TracebackType

from justitia_api.wire import Refusal
from justitia_scheduling.model import Seconds
from justitia_sidecar.admission import Admission
from justitia_sidecar.refusals import RefusalError
from justitia_sidecar.ticket import Ticket


class Waiting:
    """`waiters` lists the waits that have not ended."""

    def __init__(self, ticket: Ticket, admission: Admission, timeout: Seconds, waiters: "set[Waiting]") -> None:
        self._ticket = ticket
        self._admission = admission
        self._timeout = timeout
        self._waiters = waiters
        self._refusal: RefusalError | None = None

    async def __aenter__(self) -> "Waiting":
        self._loop = asyncio.get_running_loop()
        self._interrupt = asyncio.timeout(None)
        await self._interrupt.__aenter__()
        self._timer = self._loop.call_later(self._timeout, self._waited_too_long)
        self._waiters.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raises the refusal that has ended the wait."""
        self._leave()
        try:
            await self._interrupt.__aexit__(kind, error, traceback)
        except TimeoutError:
            assert self._refusal is not None
            raise self._refusal from None

    def refuse(self, refusal: RefusalError) -> None:
        """End the wait, unless the request has begun, or may have."""
        if self._refusal is None and self in self._waiters and self._admission.waits(self._ticket):
            self._refusal = refusal
            self._interrupt.reschedule(self._loop.time())

    def over(self) -> None:
        """The request has begun."""
        if self in self._waiters:
            self._leave()
            if not self._interrupt.expired():
                self._interrupt.reschedule(None)

    def _leave(self) -> None:
        self._waiters.discard(self)
        self._timer.cancel()

    def _waited_too_long(self) -> None:
        self.refuse(
            RefusalError(
                Refusal.QUEUE_TIMEOUT,
                f"The request waited {self._timeout:g} s and was not admitted: retry later or send less at a time.",
                retry_after=10,
            )
        )
