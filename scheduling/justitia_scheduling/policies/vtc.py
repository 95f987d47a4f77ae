"""Weighted Virtual Token Counter: the waiting tenant that has had least for its weight goes first.

Source: VTC (Algorithm 2; section 4.3 for weights and general costs). Key of a request: its tenant's counter
`c = service / weight` in the pool's cost model; within a tenant, order of arrival. A request is charged h(p, 0)
at admission and the increment of h with each token. Each preempted request goes back to its tenant's front.

Bound (requests reserve their whole output at admission, no preemption): while f and g both wait,
`c_f - c_g <= U / weight_f`, U the most that the requests in the engine can be charged; hence the service of
two tenants backlogged over an interval satisfies `|W_f/weight_f - W_g/weight_g| <= U/weight_f + U/weight_g`.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.counters import Counters
from justitia_scheduling.core.model import Step
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds, TenantId


class VTC(Policy):
    """O(log tenants) for each tenant charged since the last answer."""

    parts: ClassVar[tuple[str, ...]] = ("tenantCounter",)

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self.counters: Counters[TenantId] = Counters()
        self._queues: dict[TenantId, OrderedDict[RequestId, None]] = {}

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(tenant's service per weight in the cost model's unit, when it was first seen, arrival)."""
        return (*self.counters.place(request.tenant), request.place_in_line)

    def place(self, run: OpenRun) -> tuple[float, ...]:
        return (*self.counters.place(run.tenant), run.sequence)

    def head(self) -> RequestId | None:
        tenant = self.counters.smallest()
        return None if tenant is None else next(iter(self._queues[tenant]))

    def in_order(self) -> Iterator[RequestId]:
        return (request for tenant in self.counters.in_order() for request in self._queues[tenant])

    def victim(self) -> RequestId | None:
        return self.latest_to_arrive()

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        self.counters.enqueue(request.tenant)
        queue = self._queues.setdefault(request.tenant, OrderedDict())
        queue[request.id] = None
        if request.preemptions:
            queue.move_to_end(request.id, last=False)

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        self.counters.dequeue(request.tenant)
        del self._queues[request.tenant][request.id]

    def on_charged(self, request: OpenRequest, charge: float) -> None:
        self.counters.charge(request.tenant, charge, self.weight(request.tenant))

    def served_elsewhere(self, tenant: TenantId, charge: float) -> None:
        self.counters.charge(tenant, charge, self.weight(tenant))

    def on_kept(self, run: OpenRun, charge: float) -> None:
        self.counters.charge(run.tenant, charge, self.weight(run.tenant))

    def on_stepped(self, step: Step, now: Seconds) -> None:
        """The next answer is made ready here, while the engine computes, and not when the host waits for it."""
        self.head()
