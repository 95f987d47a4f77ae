"""A heap's entries in order, without taking them out."""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

E = TypeVar("E", bound=tuple[Any, ...])


def ascending(heap: Sequence[E]) -> Iterator[E]:
    """From the smallest on. The first k cost O(k log k), however large the heap, which must not change meanwhile.

    An entry comes after its parent, so the next one is among the children of those that have come.
    """
    nearest = [(heap[0], 0)] if heap else []
    while nearest:
        entry, at = heapq.heappop(nearest)
        yield entry
        for child in range(2 * at + 1, min(2 * at + 3, len(heap))):
            heapq.heappush(nearest, (heap[child], child))
