"""A tenant's requests that are held back, and which of them is released next.

They are held back under the tenant's limit of running requests and on the way to the engine, where the policy does not
see them. So its applications take turns: of those with held requests, the ones of the highest priority; of these, the
one with the fewest sequences released for its weight, counted and lifted as service is (`counters.py`); of its
requests, the one that arrived first. One in `OLDEST_EACH` releases is of the request that arrived first of all, so that
a low priority still moves.

Under a policy that does not share between applications, and with one application, all go in the order of arrival.
A change costs O(log applications + priorities), and O(requests) where one leaves that was not released.
"""

from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from heapq import merge

from justitia_scheduling.core.counters import Counters
from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_scheduling.core.model import ApplicationShare
from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import ApplicationId, Seconds

OLDEST_EACH = 16

ShareOf = Callable[[ApplicationId], ApplicationShare | None]
"""How an application shares; None where the policy does not share between applications."""
ALL = ApplicationId("")
"""All applications of a tenant, where they do not share."""


def _arrival(request: TrackedRequest) -> Seconds:
    return request.timing.arrival


class HeldBack:
    def __init__(self, share_of: ShareOf = lambda application: None) -> None:
        self._share_of = share_of
        self._queues: dict[ApplicationId, deque[TrackedRequest]] = {}
        """Those that are not empty, each in order of arrival."""
        self._priority: dict[ApplicationId, int] = {}
        """Whose counters an application with held requests is at."""
        self._turns: defaultdict[int, Counters[ApplicationId]] = defaultdict(Counters)
        self._oldest: LazyHeap[ApplicationId] = LazyHeap()
        self._releases = 0

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[TrackedRequest]:
        """All of them, in order of arrival."""
        return merge(*self._queues.values(), key=_arrival)

    def add(self, request: TrackedRequest) -> None:
        """A request is held back: a new one, or one that was released."""
        shares = self._share_of(request.application)
        group = ALL if shares is None else request.application
        queue = self._queues.get(group)
        if queue is None:
            queue = self._queues[group] = deque()
            priority = self._priority[group] = 0 if shares is None else shares.priority
            self._turns[priority].enqueue(group)
        if not queue or _arrival(request) >= _arrival(queue[-1]):
            queue.append(request)
        else:
            insort(queue, request, key=_arrival)
        self._oldest.put(group, (_arrival(queue[0]),))

    def next(self) -> TrackedRequest:
        """The request to release next. There has to be one."""
        if self._releases % OLDEST_EACH == OLDEST_EACH - 1:
            group = self._oldest.first()
        else:
            group = self._turns[max(self._priority.values())].smallest()
        assert group is not None
        return self._queues[group][0]

    def release(self, request: TrackedRequest) -> None:
        """The next one is released."""
        self._releases += 1
        group = self._group(request)
        weight = (self._share_of(request.application) or ApplicationShare()).weight
        self._turns[self._priority[group]].charge(group, request.asks.sequences, weight)
        self.remove(request)

    def remove(self, request: TrackedRequest) -> None:
        """A held request leaves."""
        group = self._group(request)
        queue = self._queues[group]
        queue.remove(request)
        if queue:
            self._oldest.put(group, (_arrival(queue[0]),))
        else:
            del self._queues[group]
            self._oldest.remove(group)
            self._turns[self._priority.pop(group)].dequeue(group)

    def regroup(self) -> None:
        """Shares have changed: the applications begin again at equal counters."""
        held = list(self)
        self._queues.clear()
        self._priority.clear()
        self._turns.clear()
        self._oldest.clear()
        for request in held:
            self.add(request)

    def _group(self, request: TrackedRequest) -> ApplicationId:
        return request.application if request.application in self._queues else ALL
