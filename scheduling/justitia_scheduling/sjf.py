"""Shortest job first, by request: vLLM-SJF, the baseline that knows requests and not runs.

Source: Justitia, section V-A (baseline of that name): requests in order of their predicted duration, which the
length of the output decides. Key of a request, set when it arrives: `Request.predicted_output`, else the mean output
of its application's finished requests, in tokens; among equals, arrival. Not preemptive. A preempted request comes
before all others, in the order of preemption.
"""

import heapq
from collections import OrderedDict

from justitia_scheduling.cost import CostModel
from justitia_scheduling.estimate import OutputMean
from justitia_scheduling.model import RequestId, Seconds
from justitia_scheduling.policy import OpenRequest, Policy, Status

_Entry = tuple[float, int, RequestId]


class SJF(Policy):
    """Order key: (preempted first, predicted output, arrival). O(log requests) for each event."""

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._outputs = OutputMean()
        self._expected: dict[RequestId, float] = {}
        self._preempted: OrderedDict[RequestId, None] = OrderedDict()
        self._waiting: dict[RequestId, _Entry] = {}
        self._heap: list[_Entry] = []

    def head(self) -> RequestId | None:
        if self._preempted:
            return next(iter(self._preempted))
        while self._heap:
            entry = self._heap[0]
            if self._waiting.get(entry[2]) == entry:
                return entry[2]
            heapq.heappop(self._heap)
        return None

    def order(self) -> list[RequestId]:
        return [*self._preempted, *(request for *_, request in sorted(self._waiting.values()))]

    def eviction_key(self, request: OpenRequest) -> tuple[float, ...]:
        return (self._expected[request.id], request.sequence)

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            self._preempted[request.id] = None
            return
        predicted = request.request.predicted_output
        expected = self._outputs.estimate(request.run.run.application) if predicted is None else predicted
        self._expected[request.id] = expected
        self._waiting[request.id] = entry = (expected, request.sequence, request.id)
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._waiting) + 64:
            self._heap = sorted(self._waiting.values())

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            del self._preempted[request.id]
        else:
            del self._waiting[request.id]

    def finished(self, request_id: RequestId, now: Seconds) -> None:
        request = self._in(request_id, Status.RUNNING)
        super().finished(request_id, now)
        del self._expected[request_id]
        self._outputs.finished(request.run.run.application, request.produced)

    def aborted(self, request_id: RequestId, now: Seconds) -> None:
        super().aborted(request_id, now)
        del self._expected[request_id]
