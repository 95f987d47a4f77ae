"""Ends a request that has not begun, by a refusal from elsewhere, while its body is read or while it waits.

What is under way is cancelled then: a connection to the engine is closed, and the engine drops the request.
"""

import asyncio
from types import TracebackType

from justitia_api.wire import Refusal
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import Seconds


class Interruption:
    """Surrounds all that a request does. The request may be refused until the interruption is `over`: it has begun
    then.
    """

    def __init__(self) -> None:
        self._refusal: RefusalError | None = None
        self._over = False

    async def __aenter__(self) -> "Interruption":
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(None)
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raises the refusal that ended the request."""
        self._over = True
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            assert self._refusal is not None
            raise self._refusal from None

    def refuse(self, refusal: RefusalError) -> None:
        """End the request, once, unless it has begun."""
        if not self._over and self._refusal is None:
            self._refusal = refusal
            self._timeout.reschedule(self._loop.time())

    def over(self) -> None:
        self._over = True
        if not self._timeout.expired():
            self._timeout.reschedule(None)


class Waiting:
    """A request's wait, which ends at the latest after the queue's `timeout`. It has waited so long `already`, in other
    sidecars of the pool. `open_waits` are those that have not ended.
    """

    def __init__(
        self,
        request: TrackedRequest,
        admission: Admission,
        timeout: Seconds,
        *,
        already: Seconds,
        open_waits: "set[Waiting]",
        interruption: Interruption,
    ) -> None:
        self._request = request
        self._admission = admission
        self._timeout = timeout
        self._left = max(0.0, timeout - already)
        self._open = open_waits
        self._interruption = interruption

    def __enter__(self) -> "Waiting":
        self._timer = asyncio.get_running_loop().call_later(self._left, self._waited_too_long)
        self._open.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()

    def refuse(self, refusal: RefusalError) -> None:
        """End the wait, unless the request has begun, or may have."""
        if self in self._open and self._admission.waits(self._request):
            self._interruption.refuse(refusal)

    def over(self) -> None:
        """End the wait, because the request has begun."""
        if self in self._open:
            self._leave()
            self._interruption.over()

    def _leave(self) -> None:
        self._open.discard(self)
        self._timer.cancel()

    def _waited_too_long(self) -> None:
        self.refuse(
            RefusalError(
                Refusal.QUEUE_TIMEOUT,
                f"The request waited {self._timeout:g} s and was not admitted: retry later or send less at a time.",
                retry_after=10,
            )
        )
