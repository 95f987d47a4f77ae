"""First come, first served: the order of plain vLLM. The baseline.

Requests are admitted in order of arrival; a preempted one goes back to the front.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds


class FCFS(Policy):
    """O(1) for each event."""

    parts: ClassVar[tuple[str, ...]] = ("fresh", "arrival")

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._line: OrderedDict[RequestId, None] = OrderedDict()

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(the last to be preempted first, arrival)."""
        if request.waits_again:
            return (0, request.place_in_line)
        return (1, request.sequence, request.sequence)

    def head(self) -> RequestId | None:
        return next(iter(self._line), None)

    def in_order(self) -> Iterator[RequestId]:
        return iter(self._line)

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        self._line[request.id] = None
        if request.preemptions:
            self._line.move_to_end(request.id, last=False)

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        del self._line[request.id]
