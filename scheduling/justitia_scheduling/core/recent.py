"""The largest of what was seen lately, so that one that is out of the ordinary does not count for ever."""

from typing import Generic, TypeVar

Value = TypeVar("Value", int, float)


class RecentMaximum(Generic[Value]):
    """Of the last `memory` to twice as many of what is counted, and at least `least`. O(1)."""

    def __init__(self, memory: int, least: Value) -> None:
        self._memory = memory
        self._seen = 0
        self._least: Value = least
        self._current: Value = least
        self._previous: Value = least

    @property
    def value(self) -> Value:
        return max(self._current, self._previous)

    def observe(self, value: Value) -> None:
        self._current = max(self._current, value)

    def count(self, more: int = 1) -> bool:
        """So many more have passed; whether something may have been forgotten with them."""
        self._seen += more
        if self._seen < self._memory:
            return False
        self._seen, self._previous, self._current = 0, self._current, self._least
        return True
