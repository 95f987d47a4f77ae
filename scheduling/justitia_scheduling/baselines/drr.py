"""Deficit round robin, adapted to requests whose cost is known only as they run.

Source: VTC, appendix C.2. Tenants are visited in rounds, in the order they were first seen. Each has a credit,
zero at first, in the unit of the cost model:

- at its visit, a tenant with credit <= 0 gets `quantum * weight`, whether it waits or not;
- if its credit is positive then, its requests are admitted, in order of arrival, until it no longer is;
- every charge, at admission and for each token, is deducted; so the credit may fall far below zero and take many
  rounds to come back. A tenant that is away is not refilled beyond its first positive credit: that is its lift.

A small quantum makes it VTC. Rounds in which nobody could be served are not walked through: a tenant with credit
C <= 0 is first positive after `floor(-C / (quantum * weight)) + 1` visits, so the tenants that wait stand in a heap
by the (round, place) of that visit. Charges only move it back, so an entry may be too early but never too late, and
is put right when it surfaces: O(log tenants) for each tenant charged since.

Bound (requests reserve their whole output at admission, no preemption): while f and g both wait, each visit but
the first refills, so refills differ by at most 2; a credit is at most quantum * weight and above -U, U the most that
the requests in the engine can be charged. Hence over an interval
`|W_f/weight_f - W_g/weight_g| <= 4 * quantum + U/weight_f + U/weight_g`.
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest, Status
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds, TenantId

QUANTUM = 1.0
"""In the unit of the cost model: a prompt token (VTC, w_p = 1), or a second of engine time."""

_Visit = tuple[int, int]


@dataclass(slots=True)
class _Account:
    """`credit` as of this tenant's visit in `round`; `place` in every round; `entry` of the heap that counts."""

    place: int
    round: int
    credit: float = 0.0
    entry: _Visit | None = None
    queue: OrderedDict[RequestId, None] = field(default_factory=OrderedDict)


class DRR(Policy):
    """O(log tenants) for each tenant charged since the last answer."""

    parts: ClassVar[tuple[str, ...]] = ("round", "place")

    def __init__(self, cost_model: CostModel, *, quantum: float = QUANTUM) -> None:
        if not 0 < quantum < math.inf:
            raise ValueError(f"quantum={quantum}: it must be positive and finite")
        super().__init__(cost_model)
        self.quantum = quantum
        self._accounts: dict[TenantId, _Account] = {}
        self._visit: _Visit = (0, -1)
        self._heap: list[tuple[_Visit, TenantId]] = []

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(round and place of the visit at which the tenant may be served, arrival)."""
        return (*self._next_visit(request.tenant), request.place_in_line)

    def head(self) -> RequestId | None:
        while self._heap:
            entry, tenant = self._heap[0]
            account = self._accounts[tenant]
            if account.entry != entry:
                heapq.heappop(self._heap)
            elif not account.queue:
                heapq.heappop(self._heap)
                account.entry = None
            elif entry < (visit := self._next_visit(tenant)):
                account.entry = visit
                heapq.heapreplace(self._heap, (visit, tenant))
            else:
                return next(iter(account.queue))
        return None

    def in_order(self) -> Iterator[RequestId]:
        waiting = [tenant for tenant, account in self._accounts.items() if account.queue]
        return (request for tenant in sorted(waiting, key=self._next_visit) for request in self._accounts[tenant].queue)

    def victim(self) -> RequestId | None:
        return self.latest_to_arrive()

    def set_weight(self, tenant: TenantId, weight: float, now: Seconds) -> None:
        account = self._accounts.get(tenant)
        if account is not None:
            self._settle(tenant)
        super().set_weight(tenant, weight, now)
        if account is not None and account.queue:
            self._enter(tenant)

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        account = self._accounts.get(request.tenant)
        if account is None:
            account = self._accounts[request.tenant] = _Account(len(self._accounts), self._visit[0] - 1)
        account.queue[request.id] = None
        if request.preemptions:
            account.queue.move_to_end(request.id, last=False)
        if account.entry is None:
            self._enter(request.tenant)

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        if request.status is Status.RUNNING:
            self._visit = self._next_visit(request.tenant)
            self._settle(request.tenant)
        del self._accounts[request.tenant].queue[request.id]

    def on_charged(self, request: OpenRequest, charge: float) -> None:
        self._settle(request.tenant)
        self._accounts[request.tenant].credit -= charge

    def _refill(self, tenant: TenantId) -> float:
        return self.quantum * self.weight(tenant)

    def _next_visit(self, tenant: TenantId) -> _Visit:
        """The visit, this one or a later one, at which the tenant's credit is positive."""
        self._settle(tenant)
        account = self._accounts[tenant]
        if account.credit <= 0:
            return (account.round + math.floor(-account.credit / self._refill(tenant)) + 1, account.place)
        if account.place == self._visit[1]:
            return self._visit
        return (account.round + 1, account.place)

    def _settle(self, tenant: TenantId) -> None:
        """Give the tenant what it got at the visits made since it was last looked at."""
        account = self._accounts[tenant]
        latest, place = self._visit
        visited = latest if account.place <= place else latest - 1
        if account.credit <= 0 and visited > account.round:
            refill = self._refill(tenant)
            needed = math.floor(-account.credit / refill) + 1
            account.credit += min(visited - account.round, needed) * refill
        account.round = visited

    def _enter(self, tenant: TenantId) -> None:
        """Put the tenant into the heap; drop void entries once they outnumber the others."""
        account = self._accounts[tenant]
        account.entry = self._next_visit(tenant)
        heapq.heappush(self._heap, (account.entry, tenant))
        if len(self._heap) > 2 * len(self._accounts) + 64:
            self._heap = [(a.entry, tenant) for tenant, a in self._accounts.items() if a.entry is not None]
            heapq.heapify(self._heap)
