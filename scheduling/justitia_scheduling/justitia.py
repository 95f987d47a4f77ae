"""Justitia as in the paper: runs one after the other, in the order in which fair sharing would finish them.

Source: Justitia, section IV. Key of a run: its virtual finish time `F_j = V(a_j) + C_j / weight`, computed once
when the run arrives, C_j predicted (else the application's censored mean), in KV token-time. Never retagged
while it is open; when it ends, its departure from the fluid server takes its true cost.

Preempted requests come first, in the order they were preempted, and nothing else is admitted while one waits.
The victim of a preemption is the running request with the largest F, among equals the latest to arrive.

Theorem 1(a), fluid server that preempts between runs: every run finishes no later than under GPS.
"""

from collections import OrderedDict

from justitia_scheduling.cost import CostModel
from justitia_scheduling.estimate import CensoredMean
from justitia_scheduling.gps import VirtualTime
from justitia_scheduling.model import KVTokenTime, RequestId, RunId, Seconds
from justitia_scheduling.policy import OpenRequest, OpenRun, Policy
from justitia_scheduling.runqueue import RunQueue


class Justitia(Policy):
    """Order key: (preempted first, virtual finish time F, arrival of the run)."""

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self.virtual_time = VirtualTime()
        self._estimates = CensoredMean()
        self._key: dict[RunId, float] = {}
        self._preempted: OrderedDict[RequestId, None] = OrderedDict()
        self._queue = RunQueue()

    def head(self) -> RequestId | None:
        if self._preempted:
            return next(iter(self._preempted))
        first = self._queue.first()
        return None if first is None else first.id

    def order(self) -> list[RequestId]:
        return [*self._preempted, *(request for _, request in self._queue.order())]

    def eviction_key(self, request: OpenRequest) -> tuple[float, ...]:
        return (self._key[request.run.id], request.sequence)

    def on_run_arrived(self, run: OpenRun, now: Seconds) -> None:
        cost = run.run.predicted_cost
        if cost is None:
            cost = self._estimates.estimate(run.run.application)
        self.virtual_time.arrive(run.id, cost, self.weight(run.tenant))
        self._key[run.id] = self.virtual_time.finish(run.id)

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            self._preempted[request.id] = None
        else:
            self._queue.push(request, self._key[request.run.id])

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            del self._preempted[request.id]
        else:
            self._queue.remove(request)

    def on_delivered(self, delivered: dict[RunId, KVTokenTime], now: Seconds) -> None:
        for run, increment in delivered.items():
            self._estimates.attained(self.runs[run], increment)
        self.virtual_time.advance(sum(delivered.values()))

    def on_run_ended(self, run: OpenRun, now: Seconds) -> None:
        del self._key[run.id]
        self._estimates.ended(run)
        self.virtual_time.end(run.id, run.attained)
        if not self.runs:
            self.virtual_time.clear()
