"""A queue of keys to reconcile: each at most once, never twice at the same time, again later after a failure.

Keys wait in lanes that take turns: a thousand keys of one lane delay those of another by one each.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_SECONDS = 0.5
LAST_RETRY_SECONDS = 60.0


class KeyedQueue(Generic[K]):
    """A work queue as Kubernetes' controllers have it. A key added while it is worked on comes again afterwards."""

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], object],
        lane: Callable[[K], Hashable] = lambda key: None,
    ) -> None:
        self._lane = lane
        self._lanes: dict[Hashable, deque[K]] = {}
        self._turns: deque[Hashable] = deque()
        self._ready = asyncio.Semaphore(0)
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._call_later = call_later

    def __len__(self) -> int:
        """The number of keys that wait."""
        return len(self._dirty)

    def add(self, key: K) -> None:
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._put(key)

    async def get(self) -> K:
        """Returns the next key. :meth:`succeeded` or :meth:`failed` has to follow."""
        await self._ready.acquire()
        lane = self._turns.popleft()
        keys = self._lanes[lane]
        key = keys.popleft()
        if keys:
            self._turns.append(lane)
        else:
            del self._lanes[lane]
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def succeeded(self, key: K) -> None:
        self._failures.pop(key, None)
        self._done(key)

    def failed(self, key: K) -> float:
        """Adds the key again later. Returns the delay in seconds."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** (count - 1))
        self._done(key)
        self._call_later(delay, lambda: self.add(key))
        return delay

    def _done(self, key: K) -> None:
        self._working.discard(key)
        if key in self._dirty:
            self._put(key)

    def _put(self, key: K) -> None:
        lane = self._lane(key)
        if lane not in self._lanes:
            self._lanes[lane] = deque()
            self._turns.append(lane)
        self._lanes[lane].append(key)
        self._ready.release()
