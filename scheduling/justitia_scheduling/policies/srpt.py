"""Shortest remaining work first, on predicted lengths (TRAIL; with true ones it is the paper's TRAIL+).

    remaining = prompt tokens to process + predicted output - output produced        tokens, smallest first

Among the running, the request with the most remaining makes way for a head with less. One that has produced more than
.6 of its predicted output does not: its KV is worth more than the head's gain. A request that waits has its whole
prompt to process, if need be again, so two requests never trade places at one moment. When the engine has run out of
KV, the most remaining is preempted, one past .6 only if there is no other.

It starves: among endless short requests a long one never runs.
"""

from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.lengths import OutputLengths
from justitia_scheduling.core.opened import OpenRequest, RequestState
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds

LATE = 0.6
"""The part of its predicted output after which a request is not preempted for another."""


class SRPT(Policy):
    """`gives_way` looks at each running request once."""

    takes_back: ClassVar[bool] = True
    parts: ClassVar[tuple[str, ...]] = ("remainingTokens",)

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._lengths = OutputLengths()

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(remaining tokens, arrival). A waiting request's are those of the moment at which it began to wait."""
        if request.status is RequestState.WAITING:
            return self._queue.key(request.id)
        return (self._remaining(request), request.sequence)

    def victim(self) -> RequestId | None:
        """The last in order of those that are not `late`, if any; else the last of all."""
        worst = self._worst() if len(self.running) > 1 else None
        return None if worst is None else worst.id

    def gives_way(self) -> RequestId | None:
        head, worst = self.head(), self._worst()
        if head is None or worst is None or self.late(worst) or self._remaining(worst) <= self._queue.key(head)[0]:
            return None
        return worst.id

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        to_do = request.request.prompt_tokens + self._to_produce(request)
        self._queue.put(request.id, (to_do, request.sequence))

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        if finished:
            self._lengths.finished(request)

    def _worst(self) -> OpenRequest | None:
        return max(self.running.values(), key=lambda r: (not self.late(r), *self.key(r)), default=None)

    def late(self, request: OpenRequest) -> bool:
        """Whether it has produced so much that its KV is worth more than a head's gain. Then it does not give way."""
        return request.produced > LATE * self._lengths.predicted(request)

    def _to_produce(self, request: OpenRequest) -> float:
        return max(self._lengths.predicted(request) - request.produced, 0.0)

    def _remaining(self, request: OpenRequest) -> float:
        """Tokens that a running request still needs: the rest of its prompt and of its predicted output."""
        to_prefill = request.request.prompt_tokens - request.cached - request.prefilled
        return max(to_prefill, 0) + self._to_produce(request)
