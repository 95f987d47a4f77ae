"""Shortest job first, by request: vLLM-SJF, the baseline that knows requests and not runs.

Source: Justitia, section V-A (baseline of that name): requests in order of their predicted duration, which the
length of the output decides. Key of a request, set when it arrives: `Request.predicted_output`, else the mean output
of its application's finished requests, in tokens; among equals, arrival. Not preemptive. A preempted request comes
before all others, in the order of preemption.
"""

from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.lengths import OutputLengths
from justitia_scheduling.core.opened import OpenRequest, RequestState
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds


class SJF(Policy):
    """O(log requests) for each event."""

    parts: ClassVar[tuple[str, ...]] = ("fresh", "predictedOutput")

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._lengths = OutputLengths()
        self._expected: dict[RequestId, float] = {}

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(preempted first, predicted output in tokens, arrival)."""
        if request.status is RequestState.WAITING:
            return self._queue.key(request.id)
        return (1, self._expected[request.id], request.sequence)

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            self._queue.put(request.id, (0, request.waits_since))
        else:
            expected = self._expected[request.id] = self._lengths.predicted(request)
            self._queue.put(request.id, (1, expected, request.sequence))

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        del self._expected[request.id]
        if finished:
            self._lengths.finished(request)
