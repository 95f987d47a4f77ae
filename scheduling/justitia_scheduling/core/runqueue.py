"""Waiting requests grouped by run, runs in the order of their keys; within a run, order of arrival.

Keys may change while requests wait.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_vocabulary.units import RequestId, RunId

RunKey = tuple[float, int]
"""Key of a run, and its number in the order of arrival."""


@dataclass(slots=True)
class _Waiting:
    run: OpenRun
    requests: OrderedDict[RequestId, OpenRequest] = field(default_factory=OrderedDict)


class RunQueue:
    """Smallest (key, arrival of the run) first. Operations are O(log runs) amortised."""

    def __init__(self) -> None:
        self._waiting: dict[RunId, _Waiting] = {}
        self._order: LazyHeap[RunId] = LazyHeap()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def push(self, request: OpenRequest, key: float) -> None:
        """The request waits; a preempted one at the front of its run. `key` is its run's key."""
        run = request.run
        waiting = self._waiting.get(run.id)
        if waiting is None:
            waiting = self._waiting[run.id] = _Waiting(run)
            self._order.put(run.id, (key, run.sequence))
        waiting.requests[request.id] = request
        if request.preemptions:
            waiting.requests.move_to_end(request.id, last=False)

    def remove(self, request: OpenRequest) -> None:
        waiting = self._waiting[request.run.id]
        del waiting.requests[request.id]
        if not waiting.requests:
            del self._waiting[request.run.id]
            self._order.remove(request.run.id)

    def rekey(self, run: OpenRun, key: float) -> None:
        """Change the key of a run, if any of its requests waits."""
        if run.id in self._waiting and self._order[run.id][0] != key:
            self._order.put(run.id, (key, run.sequence))

    def first(self) -> OpenRequest | None:
        """The first request of the run with the smallest key, None if none waits."""
        run = self._order.first()
        return None if run is None else next(iter(self._waiting[run].requests.values()))

    def first_run(self) -> tuple[RunKey, OpenRun] | None:
        """(key, arrival) of that run, and the run."""
        run = self._order.first()
        return None if run is None else (self._key(run), self._waiting[run].run)

    def in_order(self) -> Iterator[tuple[RunKey, RequestId]]:
        """All waiting requests in order, each with its run's (key, arrival)."""
        for run in self._order.in_order():
            key = self._key(run)
            for request in self._waiting[run].requests:
                yield key, request

    def _key(self, run: RunId) -> RunKey:
        key, arrival = self._order[run]
        return key, arrival
