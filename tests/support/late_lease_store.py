"""An API server that misbehaves on purpose, and the lines to it: it keeps one Lease; a line has bad times in which most
requests and answers are lost, and the others are late. Versions are checked when a request takes effect, as a real one
does.

Time is the event loop's, which a test makes run without waiting.
"""

import asyncio
import random
from collections.abc import Callable
from copy import deepcopy
from typing import TypeVar

from justitia_operator.world.objects import Json, Ref

T = TypeVar("T")


class LateLeaseStore:
    def __init__(self) -> None:
        self._version = 0
        self.lease: Json | None = None

    def create(self, obj: Json) -> Json | None:
        return None if self.lease is not None else self._store(obj)

    def replace(self, obj: Json) -> Json | None:
        if self.lease is None or self.lease["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            return None
        return self._store(obj)

    def _store(self, obj: Json) -> Json:
        self._version += 1
        self.lease = deepcopy(obj) | {"metadata": obj["metadata"] | {"resourceVersion": str(self._version)}}
        return deepcopy(self.lease)


class Line:
    """One candidate's way to the store. Who gives a request up undoes nothing."""

    def __init__(self, store: LateLeaseStore, random_: random.Random) -> None:
        self._store, self._random = store, random_
        self._bad, self._changes = False, 0.0

    @property
    def is_bad(self) -> bool:
        now = asyncio.get_running_loop().time()
        while now >= self._changes:
            self._bad = not self._bad
            self._changes = now + (self._random.uniform(5, 30) if self._bad else self._random.uniform(5, 40))
        return self._bad

    def delay(self) -> float:
        """The time that a call takes which is not lost."""
        return self._random.uniform(0, 4) if self.is_bad else self._random.uniform(0, 0.2)

    def _is_lost(self) -> bool:
        return self.is_bad and self._random.random() < 0.6

    async def _answered(self, effect: Callable[[], T]) -> T:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        found: list[T] = []

        def take() -> None:
            found.append(effect())
            if not self._is_lost():
                loop.call_later(self.delay(), done.set)

        if not self._is_lost():
            loop.call_later(self.delay(), take)
        await done.wait()
        return found[0]

    async def get(self, ref: Ref) -> Json | None:
        return await self._answered(lambda: deepcopy(self._store.lease))

    async def create(self, obj: Json) -> Json | None:
        return await self._answered(lambda: self._store.create(obj))

    async def replace(self, obj: Json) -> Json | None:
        return await self._answered(lambda: self._store.replace(obj))


class CutLine(Line):
    """Works until a moment; after it one request more takes effect, whose answer comes `late`, and nothing else."""

    def __init__(self, store: LateLeaseStore, cut: float, late: float) -> None:
        super().__init__(store, random.Random(0))
        self._cut, self._late, self._ways = cut, late, 0

    def delay(self) -> float:
        if asyncio.get_running_loop().time() < self._cut:
            return 0.01
        self._ways += 1
        return self._late if self._ways == 2 else 0.01

    def _is_lost(self) -> bool:
        return self._ways >= 2
