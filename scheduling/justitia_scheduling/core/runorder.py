"""The order shared by policies that give every run one key: the smallest key first, all its requests together.

Within a run: order of arrival. Preempted requests come before all others, in the order they were preempted, and
nothing else is admitted while one waits. The victim of a preemption is the running request whose run has the
largest key, among equals the latest to arrive (Justitia, section IV; where the paper is silent, all policies of this
kind decide alike).
"""

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest, OpenRun, RequestState
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.runqueue import RunQueue
from justitia_vocabulary.units import RequestId, Seconds


class RunOrder(Policy):
    """O(log runs) for each event."""

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._preempted: OrderedDict[RequestId, None] = OrderedDict()
        self._runs = RunQueue()

    @abstractmethod
    def run_key(self, run: OpenRun) -> float:
        """Key of an open run. A policy whose keys change while requests wait calls :meth:`rekey`."""

    def rekey(self, run: OpenRun) -> None:
        """The key of the run may have changed."""
        self.revisions += 1
        self._runs.rekey(run.id, self.run_key(run))

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(preempted first, key of the run, arrival of the run, arrival).

        The run's arrival keeps runs of equal keys apart in the queue. Running requests have keys without it.
        """
        if request.waits_again:
            return (0, request.waits_since)
        run = request.run
        if request.status is RequestState.RUNNING:
            return (1, self.run_key(run), request.sequence)
        return (1, self.run_key(run), run.sequence, request.sequence)

    def place(self, run: OpenRun) -> tuple[float, ...]:
        return (self.run_key(run), run.sequence)

    def head(self) -> RequestId | None:
        return next(iter(self._preempted)) if self._preempted else self._runs.first()

    def in_order(self) -> Iterator[RequestId]:
        return chain(self._preempted, (request for _, request in self._runs.in_order()))

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            self._preempted[request.id] = None
        else:
            self._runs.push(request, self.run_key(request.run))

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        if request.preemptions:
            del self._preempted[request.id]
        else:
            self._runs.remove(request)
