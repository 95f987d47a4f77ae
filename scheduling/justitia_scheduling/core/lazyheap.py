"""A heap of items whose keys change and which leave, the smallest key first.

An entry is an item's key with the item behind it, in one tuple. When an item's key changes or the item leaves, its old
entry stays in the heap: it is dropped when it comes to the top, or with all other stale entries once these outnumber
the current ones. So each operation is O(log items) amortised, and no entry is ever searched for.

Keys are tuples. No two keys in the heap may be equal, stale ones included, unless the items can be compared.
"""

from collections.abc import Hashable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)
Key = tuple[Any, ...]

SLACK = 64
"""The heap may have this many more stale entries than current ones."""


class LazyHeap(Generic[Item]):
    """Items, each with a key; the item of the smallest key is first."""

    __slots__ = ("_entries", "_heap")

    def __init__(self) -> None:
        self._entries: dict[Item, Key] = {}
        self._heap: list[Key] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, item: Item) -> bool:
        return item in self._entries

    def key(self, item: Item) -> Key:
        """The key with which the item was put. Raises KeyError if it is not in the heap."""
        return self._entries[item][:-1]

    def put(self, item: Item, key: Key) -> None:
        """The item enters, or its key changes."""
        entry = self._entries[item] = key + (item,)  # noqa: RUF005, half the time of unpacking
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + SLACK:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def remove(self, item: Item) -> None:
        """The item leaves. Raises KeyError if it is not in the heap."""
        del self._entries[item]

    def clear(self) -> None:
        """Every item leaves."""
        self._entries.clear()
        self._heap.clear()

    def first(self) -> Item | None:
        """The item of the smallest key, None if there is none."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            item: Item = entry[-1]
            if entries.get(item) is entry:
                return item
            heappop(heap)
        return None

    def top(self) -> Key | None:
        """The first item's entry, its key with the item behind it; None if there is none."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[-1]) is entry:
                return entry
            heappop(heap)
        return None

    def raise_top(self, key: Key) -> None:
        """The key of the first item, whose entry :meth:`top` has just returned, has grown."""
        item: Item = self._heap[0][-1]
        entry = self._entries[item] = key + (item,)  # noqa: RUF005
        heapreplace(self._heap, entry)

    def first_grown(self, grown: Mapping[Item, float]) -> Item | None:
        """The first item, where keys are (number, rank) and numbers may have grown since, to those in `grown`.

        A stored number may be too small, never too large. It is corrected when its entry comes to the top.
        """
        heap, entries = self._heap, self._entries
        item: Item
        while heap:
            entry = heap[0]
            number, rank, item = entry
            if entries.get(item) is not entry:
                heappop(heap)
            elif number == grown[item]:
                return item
            else:
                entries[item] = entry = (grown[item], rank, item)
                heapreplace(heap, entry)
        return None

    def least(self) -> Key | None:
        """The top entry, which may be stale: no key is smaller. None if there is none. O(1)."""
        return self._heap[0] if self._heap else None

    def in_order(self) -> Iterator[Item]:
        """All items, the smallest key first. Nothing may change meanwhile. The first k cost O(k log k), not O(items).

        An entry comes after its parent in the heap, so the next one is among the children of those that have come.
        """
        heap, entries = self._heap, self._entries
        nearest = [(heap[0], 0)] if heap else []
        while nearest:
            entry, at = heappop(nearest)
            if entries.get(entry[-1]) is entry:
                yield entry[-1]
            for child in range(2 * at + 1, min(2 * at + 3, len(heap))):
                heappush(nearest, (heap[child], child))
