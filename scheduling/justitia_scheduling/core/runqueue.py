"""Waiting requests grouped by run, runs in the order of their keys; within a run, order of arrival.

Keys may change while requests wait.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_vocabulary.units import RequestId, RunId

RunKey = tuple[float, ...]
"""A run's key, followed by its number in the order of arrival."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A run and its waiting requests, in order."""

    run: OpenRun
    key: RunKey
    requests: OrderedDict[RequestId, None] = field(default_factory=OrderedDict)

    def __lt__(self, other: "_Waiting") -> bool:
        """Any answer will do: keys are equal only if a run left and came back, and then one of the two is stale."""
        return False


class RunQueue:
    """Smallest (key, arrival of the run) first. Operations are O(log runs) amortised."""

    def __init__(self) -> None:
        self._runs: dict[RunId, _Waiting] = {}
        self._order: LazyHeap[_Waiting] = LazyHeap()

    def __bool__(self) -> bool:
        return bool(self._runs)

    def push(self, request: OpenRequest, *key: float) -> None:
        """The request waits; a preempted one at the front of its run. `key` is its run's key."""
        run = request.run
        waiting = self._runs.get(run.id)
        if waiting is None:
            waiting = self._runs[run.id] = _Waiting(run, (*key, run.sequence))
            self._order.put(waiting, waiting.key)
        waiting.requests[request.id] = None
        if request.preemptions:
            waiting.requests.move_to_end(request.id, last=False)

    def remove(self, request: OpenRequest) -> None:
        waiting = self._runs[request.run.id]
        del waiting.requests[request.id]
        if not waiting.requests:
            del self._runs[request.run.id]
            self._order.remove(waiting)

    def rekey(self, run: RunId, *key: float) -> None:
        """Change the key of a run, if any of its requests waits."""
        waiting = self._runs.get(run)
        if waiting is not None and waiting.key[:-1] != key:
            waiting.key = (*key, waiting.run.sequence)
            self._order.put(waiting, waiting.key)

    def first(self) -> RequestId | None:
        """The first request of the run with the smallest key, None if none waits."""
        waiting = self._order.first()
        return None if waiting is None else next(iter(waiting.requests))

    def first_run(self) -> tuple[RunKey, OpenRun] | None:
        """The run with the smallest key, behind its (key, arrival); None if none waits."""
        waiting = self._order.first()
        return None if waiting is None else (waiting.key, waiting.run)

    def in_order(self) -> Iterator[tuple[RunKey, RequestId]]:
        """All waiting requests in order, each with its run's (key, arrival)."""
        for waiting in self._order.in_order():
            for request in waiting.requests:
                yield waiting.key, request
