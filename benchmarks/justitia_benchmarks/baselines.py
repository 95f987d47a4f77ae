"""Fair sharing on two levels, to compare with: VTC between tenants by weight, and inside a tenant between its runs.

The waiting tenant with the smallest counter goes first; of its runs, the waiting one with the smallest counter of its
own; of that run, the request that arrived first. Both levels lift and charge as VTC does (`counters.py`). With one
tenant this is VTC with each run a client, the baseline of the Justitia paper. It remembers every run, so it is for
simulations only.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.counters import Counters
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, RunId, Seconds, TenantId


class TwoLevelVTC(Policy):
    parts: ClassVar[tuple[str, ...]] = ("tenantCounter", "tenant", "runCounter")

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._tenants: Counters[TenantId] = Counters()
        self._runs: defaultdict[TenantId, Counters[RunId]] = defaultdict(Counters)
        self._queues: dict[RunId, OrderedDict[RequestId, None]] = {}

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(tenant's counter, when it was first seen, run's counter, when that was first seen, arrival)."""
        runs = self._runs[request.tenant]
        return (*self._tenants.place(request.tenant), *runs.place(request.run.id), request.place_in_line)

    def head(self) -> RequestId | None:
        tenant = self._tenants.smallest()
        run = None if tenant is None else self._runs[tenant].smallest()
        return None if run is None else next(iter(self._queues[run]))

    def in_order(self) -> Iterator[RequestId]:
        return (
            request
            for tenant in self._tenants.in_order()
            for run in self._runs[tenant].in_order()
            for request in self._queues[run]
        )

    def victim(self) -> RequestId | None:
        return self.latest_to_arrive()

    def on_run_arrived(self, run: OpenRun, now: Seconds) -> None:
        self._queues[run.id] = OrderedDict()

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        run = request.run.id
        self._tenants.enqueue(request.tenant)
        self._runs[request.tenant].enqueue(run)
        self._queues[run][request.id] = None
        if request.preemptions:
            self._queues[run].move_to_end(request.id, last=False)

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        run = request.run.id
        self._tenants.dequeue(request.tenant)
        self._runs[request.tenant].dequeue(run)
        del self._queues[run][request.id]

    def on_charged(self, request: OpenRequest, charge: float) -> None:
        self._tenants.charge(request.tenant, charge, self.weight(request.tenant))
        self._runs[request.tenant].charge(request.run.id, charge, 1.0)

    def on_run_ended(self, run: OpenRun, now: Seconds) -> None:
        del self._queues[run.id]
