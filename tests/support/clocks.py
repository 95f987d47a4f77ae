"""Other times than the machine's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


class LoopClock:
    """The event loop's, which a test makes run without waiting."""

    def seconds(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)


class ManualClock:
    """Stands still but for who sleeps: that is how time passes, and without waiting. `ahead`: by how much the time of
    day is.
    """

    def __init__(self, ahead: timedelta = timedelta()) -> None:
        self._seconds = 0.0
        self._ahead = ahead
        self._deadlines: list[float] = []

    def seconds(self) -> float:
        return self._seconds

    def now(self) -> datetime:
        return BEGIN + self._ahead + timedelta(seconds=self._seconds)

    async def sleep(self, seconds: float) -> None:
        """Raises TimeoutError where that is longer than what is timed may take."""
        end = self._seconds + seconds
        deadline = min(self._deadlines, default=end)
        self._seconds = min(end, deadline)
        if deadline < end:
            raise TimeoutError

    @asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[None]:
        self._deadlines.append(self._seconds + seconds)
        try:
            yield
        finally:
            self._deadlines.pop()
