"""Deficit round robin, adapted to requests whose cost is known only as they run.

Source: VTC, appendix C.2. Tenants are visited in rounds, in the order they were first seen. Each has a credit,
zero at first, in the unit of the cost model:

- at its visit, a tenant with credit <= 0 gets `quantum * weight`, whether it waits or not;
- if its credit is positive then, its requests are admitted, in order of arrival, until it no longer is;
- every charge, at admission and for each token, is deducted; so the credit may fall far below zero and take many
  rounds to come back. A tenant that is away is not refilled beyond its first positive credit: that is its lift.

A small quantum makes it VTC. Rounds in which nobody could be served are not walked through: a tenant with credit
C <= 0 is first positive after `floor(-C / (quantum * weight)) + 1` visits, so the tenants that wait stand in a lazy
heap by the (round, place) of that visit. Charges only move it back: O(log tenants) for each tenant charged since.

Bound (requests reserve their whole output at admission, no preemption): while f and g both wait, each visit but
the first refills, so refills differ by at most 2; a credit is at most quantum * weight and above -U, U the most that
the requests in the engine can be charged. Hence over an interval
`|W_f/weight_f - W_g/weight_g| <= 4 * quantum + U/weight_f + U/weight_g`.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_scheduling.core.opened import OpenRequest, RequestState
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds, TenantId

QUANTUM = 1.0
"""The default quantum, in the unit of the cost model: a prompt token (VTC, w_p = 1), or a second of engine time."""

_Visit = tuple[int, int]


@dataclass(slots=True, eq=False)
class _Account:
    """A tenant: its `credit` as of its visit in `round`, and its `place` within each round."""

    tenant: TenantId
    place: int
    round: int
    credit: float = 0.0
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
        self._visits: LazyHeap[_Account] = LazyHeap()
        """The next visits of the waiting tenants. A recorded visit may be earlier than the true one, never later."""

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(round and place of the visit at which the tenant may be served, arrival)."""
        return (*self._next_visit(self._accounts[request.tenant]), request.place_in_line)

    def head(self) -> RequestId | None:
        visits = self._visits
        account: _Account
        while (top := visits.top()) is not None:
            account = top[-1]
            visit = self._next_visit(account)
            if not top < visit:
                return next(iter(account.queue))
            visits.raise_top(visit)
        return None

    def in_order(self) -> Iterator[RequestId]:
        waiting = [account for account in self._accounts.values() if account.queue]
        return (request for account in sorted(waiting, key=self._next_visit) for request in account.queue)

    def victim(self) -> RequestId | None:
        return self.latest_to_arrive()

    def set_weight(self, tenant: TenantId, weight: float, now: Seconds) -> None:
        account = self._accounts.get(tenant)
        if account is not None:
            self._settle(account)
        super().set_weight(tenant, weight, now)
        if account is not None and account.queue:
            self._visits.put(account, self._next_visit(account))

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        account = self._accounts.get(request.tenant)
        if account is None:
            place = len(self._accounts)
            account = self._accounts[request.tenant] = _Account(request.tenant, place, self._visit[0] - 1)
        if not account.queue:
            self._visits.put(account, self._next_visit(account))
        account.queue[request.id] = None
        if request.preemptions:
            account.queue.move_to_end(request.id, last=False)

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        account = self._accounts[request.tenant]
        if request.status is RequestState.RUNNING:
            self._visit = self._next_visit(account)
            self._settle(account)
        del account.queue[request.id]
        if not account.queue:
            self._visits.remove(account)

    def on_charged(self, request: OpenRequest, charge: float) -> None:
        account = self._accounts[request.tenant]
        self._settle(account)
        account.credit -= charge

    def _refill(self, account: _Account) -> float:
        return self.quantum * self.weight(account.tenant)

    def _next_visit(self, account: _Account) -> _Visit:
        """The visit, this one or a later one, at which the tenant's credit is positive."""
        self._settle(account)
        if account.credit <= 0:
            return (account.round + math.floor(-account.credit / self._refill(account)) + 1, account.place)
        if account.place == self._visit[1]:
            return self._visit
        return (account.round + 1, account.place)

    def _settle(self, account: _Account) -> None:
        """Add to the tenant's credit what it got at its visits since the last call."""
        latest, place = self._visit
        visited = latest if account.place <= place else latest - 1
        if account.credit <= 0 and visited > account.round:
            refill = self._refill(account)
            needed = math.floor(-account.credit / refill) + 1
            account.credit += min(visited - account.round, needed) * refill
        account.round = visited
