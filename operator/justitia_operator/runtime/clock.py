"""The clock that the operator uses, in one place, so that tests can pass another."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time. `seconds` are good for differences only, and pass while the machine sleeps, unlike those of the
    event loop.
    """

    def seconds(self) -> float: ...

    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """A block that TimeoutError ends after so many seconds."""


class SystemClock:
    """The clock of the machine."""

    def seconds(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)
