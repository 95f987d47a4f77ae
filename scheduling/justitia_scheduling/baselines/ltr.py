"""Shortest predicted output first, with a guard against starvation (LTR; with true lengths the paper's LTR+).

Source: Efficient LLM scheduling by learning to rank (Fu et al. 2024), as tail-aware scheduling runs it: a running
request is not preempted for a shorter one. When the engine runs out of KV, the largest predicted output is preempted.

A request that has waited through 200 steps is *promoted*: it goes before all that are not, in order of promotion, and
keeps its rank through its first 10 steps of service. Nothing is preempted for the head, so
to a running request this rank means only that it loses its KV last. If it loses it all the same, it waits at the front.

Bound, whatever arrives: a request that has waited through 200 steps is overtaken by no request that has waited less,
except one that lost its KV in those 10 steps. A step in which only a part of the running requests make progress counts
as that part of a step, so a host may report each request by itself.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import chain
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.lengths import OutputLengths
from justitia_scheduling.core.model import Step
from justitia_scheduling.core.opened import OpenRequest, RequestState
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds

PATIENCE = 200.0
QUANTUM = 10.0


class LTR(Policy):
    """`patience` and `quantum` are in steps. O(log requests) for each event."""

    parts: ClassVar[tuple[str, ...]] = ("promoted", "predictedOutput")

    def __init__(self, cost_model: CostModel, *, patience: float = PATIENCE, quantum: float = QUANTUM) -> None:
        super().__init__(cost_model)
        self.patience, self.quantum = patience, quantum
        self._lengths = OutputLengths()
        self._steps = 0.0
        self._promotions = 0
        self._promoted: OrderedDict[RequestId, int] = OrderedDict()
        self._since: dict[RequestId, float] = {}
        self._by_wait: deque[tuple[float, RequestId]] = deque()
        self._favoured_until: dict[RequestId, float] = {}

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(-1 for what goes before all others and else 0, predicted output in tokens, arrival).

        Waiting requests that go before all others have (-1, place): first those that lost their KV, then by promotion.
        The predicted output of a waiting request is that of the moment at which it began to wait.
        """
        if request.status is RequestState.RUNNING:
            return (-1 if self._favoured(request) else 0, self._lengths.predicted(request), request.sequence)
        if (place := self._promoted.get(request.id)) is not None:
            return (-1, place)
        return self._queue.key(request.id)

    def head(self) -> RequestId | None:
        return next(iter(self._promoted)) if self._promoted else self._queue.first()

    def in_order(self) -> Iterator[RequestId]:
        return chain(self._promoted, self._queue.in_order())

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        if self._favoured(request):
            self._promoted[request.id] = request.place_in_line
            self._promoted.move_to_end(request.id, last=False)
            return
        self._queue.put(request.id, (0, self._lengths.predicted(request), request.sequence))
        self._since[request.id] = self._steps
        self._by_wait.append((self._steps, request.id))

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        if request.id not in self._promoted:
            self._queue.remove(request.id)
            del self._since[request.id]
            return
        del self._promoted[request.id]
        if request.status is RequestState.RUNNING:
            self._favoured_until[request.id] = self._steps + self.quantum

    def on_stepped(self, step: Step, now: Seconds) -> None:
        self._steps += sum(max(p.produced, 1) for p in step.progress) / max(len(self.running), 1)
        while self._by_wait and self._by_wait[0][0] + self.patience <= self._steps:
            since, waiting = self._by_wait.popleft()
            if self._since.get(waiting) == since:
                self._promote(self.requests[waiting])

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        self._favoured_until.pop(request.id, None)
        if finished:
            self._lengths.finished(request)

    def _promote(self, request: OpenRequest) -> None:
        self._queue.remove(request.id)
        del self._since[request.id]
        self._promotions += 1
        self._promoted[request.id] = self._promotions

    def _favoured(self, request: OpenRequest) -> bool:
        return self._steps < self._favoured_until.get(request.id, 0.0)
