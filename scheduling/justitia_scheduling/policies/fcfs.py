"""First come, first served: the order of plain vLLM. The baseline.

Requests are admitted in order of arrival; a preempted one goes back to the front.
"""

from collections import OrderedDict
from collections.abc import Iterator

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds


class FCFS(Policy):
    """Order key: (preempted first, arrival)."""

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._queue: OrderedDict[RequestId, None] = OrderedDict()

    def head(self) -> RequestId | None:
        return next(iter(self._queue), None)

    def in_order(self) -> Iterator[RequestId]:
        return iter(self._queue)

    def order_key(self, request: OpenRequest) -> dict[str, float]:
        return {"fresh": 0} if request.preemptions else {"fresh": 1, "arrival": request.sequence}

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        self._queue[request.id] = None
        if request.preemptions:
            self._queue.move_to_end(request.id, last=False)

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        del self._queue[request.id]
