"""Least attained service first: the continuous limit of multi-level feedback queues (MLFQ+ of tail-aware scheduling).

A request's attained service is the tokens processed for it, prompt and output, recomputation not counted. The smallest
goes first, the earlier arrival among equals. Taken literally, another request would run after every token, and every
change costs a recomputation; so service is given in quanta of 256 tokens. The request with the most service makes way
for a head that has at least a quantum less, but only after a quantum of its own since it was admitted: a request of S
tokens makes way at most S / 256 times. When the engine has run out of KV, the request with the most attained service is
preempted regardless.

It starves: among endless short requests one that has received a quantum may never run again.
"""

from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest, RequestState
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds, Tokens

QUANTUM: Tokens = 256


class MLFQ(Policy):
    """`gives_way` looks at each running request once."""

    takes_back: ClassVar[bool] = True
    parts: ClassVar[tuple[str, ...]] = ("attainedTokens",)

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._at_admission: dict[RequestId, Tokens] = {}

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(attained service, arrival)."""
        return (request.processed, request.sequence)

    def gives_way(self) -> RequestId | None:
        head = self.head()
        losers = [r for r in self.running.values() if r.processed >= self._at_admission[r.id] + QUANTUM]
        worst = max(losers, key=self.key, default=None)
        if head is None or worst is None or worst.processed < self.requests[head].processed + QUANTUM:
            return None
        return worst.id

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        super().on_left_queue(request, now)
        if request.status is RequestState.RUNNING:
            self._at_admission[request.id] = request.processed

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        self._at_admission.pop(request.id, None)
