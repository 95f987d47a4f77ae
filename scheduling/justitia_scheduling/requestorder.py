"""The order shared by policies that give every waiting request a key: the smallest first, among equals by arrival."""

from justitia_scheduling.cost import CostModel
from justitia_scheduling.model import RequestId, Seconds
from justitia_scheduling.policy import OpenRequest, Policy
from justitia_scheduling.requestqueue import RequestQueue


class RequestOrder(Policy):
    """Subclasses queue what waits under its key. O(log requests) for each event."""

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._queue = RequestQueue()

    def head(self) -> RequestId | None:
        return self._queue.head()

    def order(self) -> list[RequestId]:
        return self._queue.order()

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        self._queue.remove(request)
