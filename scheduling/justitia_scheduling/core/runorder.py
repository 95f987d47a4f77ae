"""The order shared by policies that give every run one key: the smallest key first, all its requests together.

Within a run: order of arrival. Preempted requests come before all others, in the order they were preempted, and
nothing else is admitted while one waits. The victim of a preemption is the running request whose run has the
largest key, among equals the latest to arrive (Justitia, section IV; decisions in its absence are the same for all).
"""

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.runqueue import RunQueue
from justitia_vocabulary.units import RequestId, Seconds


class RunOrder(Policy):
    """Order key: (preempted first, key of the run, arrival of the run). O(log runs) for each event.

    `key_name` names the run's key.
    """

    key_name: ClassVar[str]

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._preempted: OrderedDict[RequestId, None] = OrderedDict()
        self._queue = RunQueue()

    @abstractmethod
    def key(self, run: OpenRun) -> float:
        """Key of an open run. A policy whose keys change while requests wait calls :meth:`rekey`."""

    def rekey(self, run: OpenRun) -> None:
        """The key of the run may have changed."""
        self.revisions += 1
        self._queue.rekey(run.id, self.key(run))

    def head(self) -> RequestId | None:
        if self._preempted:
            return next(iter(self._preempted))
        first = self._queue.first()
        return None if first is None else first.id

    def in_order(self) -> Iterator[RequestId]:
        return chain(self._preempted, (request for _, request in self._queue.in_order()))

    def order_key(self, request: OpenRequest) -> dict[str, float]:
        return {"fresh": 0} if request.preemptions else {"fresh": 1, self.key_name: self.key(request.run)}

    def eviction_key(self, request: OpenRequest) -> tuple[float, ...]:
        return (self.key(request.run), request.sequence)

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            self._preempted[request.id] = None
        else:
            self._queue.push(request, self.key(request.run))

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            del self._preempted[request.id]
        else:
            self._queue.remove(request)
