"""The largest of the values seen lately, so that an unusual one does not count for ever."""

from typing import Generic, TypeVar

Value = TypeVar("Value", int, float)


class RecentMaximum(Generic[Value]):
    """The largest value observed during the last `memory` to twice as many counted events, at least `least`. O(1)."""

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
        """`more` events have passed. Returns whether a value may have been forgotten."""
        self._seen += more
        if self._seen < self._memory:
            return False
        self._seen, self._previous, self._current = 0, self._current, self._least
        return True
