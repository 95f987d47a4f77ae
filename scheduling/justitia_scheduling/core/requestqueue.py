"""Waiting requests in the order of a key of their own; among equals, order of arrival.

The heap keeps the entries of requests that have left and drops them when they surface, or all at once when they
outnumber the live ones.
"""

import heapq
from collections.abc import Iterator

from justitia_scheduling.core.heapwalk import ascending
from justitia_scheduling.core.opened import OpenRequest
from justitia_vocabulary.units import RequestId

_Entry = tuple[float, int, RequestId]


class RequestQueue:
    """Smallest (key, arrival) first. Operations are O(log requests) amortised."""

    def __init__(self) -> None:
        self._entries: dict[RequestId, _Entry] = {}
        self._heap: list[_Entry] = []

    def push(self, request: OpenRequest, key: float) -> None:
        entry = (key, request.sequence, request.id)
        self._entries[request.id] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._entries) + 64:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)

    def remove(self, request: OpenRequest) -> None:
        del self._entries[request.id]

    def first(self) -> tuple[float, RequestId] | None:
        """The smallest key and its request, None if none waits."""
        while self._heap:
            key, _, request = entry = self._heap[0]
            if self._entries.get(request) == entry:
                return key, request
            heapq.heappop(self._heap)
        return None

    def head(self) -> RequestId | None:
        first = self.first()
        return None if first is None else first[1]

    def key(self, request: OpenRequest) -> float:
        """Of a waiting request."""
        return self._entries[request.id][0]

    def in_order(self) -> Iterator[RequestId]:
        return (entry[2] for entry in ascending(self._heap) if self._entries.get(entry[2]) is entry)
