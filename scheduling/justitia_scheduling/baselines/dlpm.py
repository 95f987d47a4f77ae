"""Deficit longest prefix match: of the tenants with credit, the request with the longest prefix in the cache.

Source: Cao et al., Locality-aware Fair Scheduling in LLM Serving (arXiv 2501.14312), DLPM for one engine. Each tenant
has a credit, zero at first, in the unit of the cost model:

- of the waiting requests whose tenants have credit, the one goes first of whose prompt the cache has most;
- every charge is deducted from its tenant's credit (the paper: prompt tokens that were not cached, and output tokens);
- when no waiting tenant has credit, all that wait get `quantum * weight`, as often as it takes for one to have some.

A tenant that is away gets nothing, so absence earns no credit. The host says what the cache has (`Policy.in_cache`). As
in the paper each decision looks at all that waits, O(n): it is here to compare with.

Bound (no preemption): a waiting tenant's credit is at most quantum * weight and above -U, so over an interval in which
f and g both wait `|W_f/weight_f - W_g/weight_g| <= 2 * quantum + U/weight_f + U/weight_g`.
"""

import math
from collections.abc import Iterator
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds, TenantId

QUANTUM = 10.0
"""The default quantum, in the unit of the cost model: ten seconds of engine time."""


class DLPM(Policy):
    """The key of a request changes with what the cache has, so all keys are made anew at each decision."""

    parts: ClassVar[tuple[str, ...]] = ("refills", "notCached")

    def __init__(self, cost_model: CostModel, *, quantum: float = QUANTUM) -> None:
        if not 0 < quantum < math.inf:
            raise ValueError(f"quantum={quantum}: it must be positive and finite")
        super().__init__(cost_model)
        self.quantum = quantum
        self._credit: dict[TenantId, float] = {}
        self._waiting: dict[RequestId, OpenRequest] = {}

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(refills until its tenant has credit, prompt tokens that the cache has, negative, arrival)."""
        cached = self.in_cache(request.id) if self.in_cache else 0
        return (self._refills(request.tenant), -cached, request.place_in_line)

    def head(self) -> RequestId | None:
        waiting = self._waiting.values()
        return min(waiting, key=self.key).id if waiting else None

    def in_order(self) -> Iterator[RequestId]:
        return (request.id for request in sorted(self._waiting.values(), key=self.key))

    def victim(self) -> RequestId | None:
        return self.latest_to_arrive()

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        self._credit.setdefault(request.tenant, 0.0)
        self._waiting[request.id] = request

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        refills = self._refills(request.tenant)
        if refills and request.id in self.running:
            for tenant in {r.tenant for r in self._waiting.values()}:
                self._credit[tenant] += refills * self.quantum * self.weight(tenant)
        del self._waiting[request.id]

    def on_charged(self, request: OpenRequest, charge: float) -> None:
        self._credit[request.tenant] -= charge

    def on_kept(self, run: OpenRun, charge: float) -> None:
        self._credit[run.tenant] -= charge

    def _refills(self, tenant: TenantId) -> int:
        credit = self._credit[tenant]
        return 0 if credit > 0 else math.floor(-credit / (self.quantum * self.weight(tenant))) + 1
