"""Waiting requests grouped by run, runs in the order of their keys; within a run, order of arrival.

Keys may change while requests wait. The heap keeps entries that a change has made stale and drops them when
they surface, or all at once when they outnumber the live ones.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from justitia_scheduling.core.heapwalk import ascending
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_vocabulary.units import RequestId, RunId

RunKey = tuple[float, int]
_Entry = tuple[float, int, RunId]


@dataclass(slots=True)
class _Waiting:
    run: OpenRun
    entry: _Entry
    requests: OrderedDict[RequestId, OpenRequest] = field(default_factory=OrderedDict)


class RunQueue:
    """Smallest (key, arrival of the run) first. Operations are O(log runs) amortised."""

    def __init__(self) -> None:
        self._runs: dict[RunId, _Waiting] = {}
        self._heap: list[_Entry] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    def push(self, request: OpenRequest, key: float) -> None:
        """The request waits; a preempted one at the front of its run. `key` is its run's key."""
        waiting = self._runs.get(request.run.id)
        if waiting is None:
            waiting = self._runs[request.run.id] = _Waiting(request.run, (key, request.run.sequence, request.run.id))
            self._enter(waiting.entry)
        waiting.requests[request.id] = request
        if request.preemptions:
            waiting.requests.move_to_end(request.id, last=False)

    def remove(self, request: OpenRequest) -> None:
        waiting = self._runs[request.run.id]
        del waiting.requests[request.id]
        if not waiting.requests:
            del self._runs[request.run.id]

    def rekey(self, run: RunId, key: float) -> None:
        """Change the key of a run, if any of its requests waits."""
        waiting = self._runs.get(run)
        if waiting is not None and waiting.entry[0] != key:
            waiting.entry = (key, *waiting.entry[1:])
            self._enter(waiting.entry)

    def first(self) -> OpenRequest | None:
        """The first request of the run with the smallest key, None if none waits."""
        waiting = self._first()
        return None if waiting is None else next(iter(waiting.requests.values()))

    def first_run(self) -> tuple[RunKey, OpenRun] | None:
        """(key, arrival) of that run, and the run."""
        waiting = self._first()
        return None if waiting is None else (waiting.entry[:2], waiting.run)

    def in_order(self) -> Iterator[tuple[RunKey, RequestId]]:
        """All waiting requests in order, each with its run's (key, arrival)."""
        for entry in ascending(self._heap):
            waiting = self._runs.get(entry[2])
            if waiting is not None and waiting.entry is entry:
                for request in waiting.requests:
                    yield entry[:2], request

    def _first(self) -> _Waiting | None:
        """The waiting run with the smallest key. An entry stands for a run only while it is the run's own tuple."""
        while self._heap:
            entry = self._heap[0]
            waiting = self._runs.get(entry[2])
            if waiting is not None and waiting.entry is entry:
                return waiting
            heapq.heappop(self._heap)
        return None

    def _enter(self, entry: _Entry) -> None:
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._runs) + 64:
            self._heap = [waiting.entry for waiting in self._runs.values()]
            heapq.heapify(self._heap)
