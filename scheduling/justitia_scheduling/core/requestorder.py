"""The order shared by policies that give every waiting request a key: the smallest first, among equals by arrival."""

from collections.abc import Iterator
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.requestqueue import RequestQueue
from justitia_vocabulary.units import RequestId, Seconds


class RequestOrder(Policy):
    """Subclasses queue what waits under its key, which `key_name` names. O(log requests) for each event."""

    key_name: ClassVar[str]

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._queue = RequestQueue()

    def head(self) -> RequestId | None:
        return self._queue.head()

    def in_order(self) -> Iterator[RequestId]:
        return self._queue.in_order()

    def order_key(self, request: OpenRequest) -> dict[str, float]:
        return {self.key_name: self._queue.key(request)}

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        self._queue.remove(request)
