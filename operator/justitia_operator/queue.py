"""Keys waiting to be reconciled: each at most once, never twice at the same time, again later after a failure."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 60.0


class KeyedQueue(Generic[K]):
    """A work queue as Kubernetes' controllers have it. A key added while it is worked on comes again afterwards."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._call_later = call_later

    def __len__(self) -> int:
        """Keys that wait."""
        return len(self._dirty)

    def add(self, key: K) -> None:
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._ready.put_nowait(key)

    async def get(self) -> K:
        """The next key; to be followed by :meth:`succeeded` or :meth:`failed`."""
        key = await self._ready.get()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def succeeded(self, key: K) -> None:
        self._failures.pop(key, None)
        self._done(key)

    def failed(self, key: K) -> float:
        """Brings the key back later; tells in how many seconds."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** (count - 1))
        self._done(key)
        self._call_later(delay, lambda: self.add(key))
        return delay

    def _done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._dirty:
            self._ready.put_nowait(key)
