"""Shortest job first, by request: vLLM-SJF, the baseline that knows requests and not runs.

Source: Justitia, section V-A (baseline of that name): requests in order of their predicted duration, which the
length of the output decides. Key of a request, set when it arrives: `Request.predicted_output`, else the mean output
of its application's finished requests, in tokens; among equals, arrival. Not preemptive. A preempted request comes
before all others, in the order of preemption.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.lengths import OutputLengths
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.requestqueue import RequestQueue
from justitia_vocabulary.units import RequestId, Seconds


class SJF(Policy):
    """Order key: (preempted first, predicted output, arrival). O(log requests) for each event."""

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._lengths = OutputLengths()
        self._expected: dict[RequestId, float] = {}
        self._preempted: OrderedDict[RequestId, None] = OrderedDict()
        self._queue = RequestQueue()

    def head(self) -> RequestId | None:
        return next(iter(self._preempted), None) or self._queue.head()

    def in_order(self) -> Iterator[RequestId]:
        return chain(self._preempted, self._queue.in_order())

    def order_key(self, request: OpenRequest) -> dict[str, float]:
        """Output in tokens."""
        return {"fresh": 0} if request.preemptions else {"fresh": 1, "predictedOutput": self._expected[request.id]}

    def eviction_key(self, request: OpenRequest) -> tuple[float, ...]:
        return (self._expected[request.id], request.sequence)

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            self._preempted[request.id] = None
        else:
            self._expected[request.id] = self._lengths.predicted(request)
            self._queue.push(request, self._expected[request.id])

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            del self._preempted[request.id]
        else:
            self._queue.remove(request)

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        del self._expected[request.id]
        if finished:
            self._lengths.finished(request)
