"""Requests per minute: at most so many requests of each tenant enter the queue in each minute of the clock.

Source: VTC, section 5.1 (baseline of that name): what exceeds the limit "is blocked until the limit resets at the
start of the next minute". Its analysis (section 5.3) speaks of rejecting the rest, which is up to the host:
a policy delays requests and drops none. Minutes are fixed: minute k is [60k, 60(k+1)) on the host's clock, so up to
twice the limit may enter within 60 seconds around a boundary. Weights do not count.

A request enters when it arrives, or at the start of the first minute that has a place for it; from then on requests
are served first come, first served. A preempted one goes back to the front and counts once. The engine may be
idle while requests are held: this cost is what the baseline is there to show.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.opened import OpenRequest, RequestState
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, Seconds, TenantId

REQUESTS_PER_MINUTE = 20
"""The middle one of the limits 5, 20 and 30 of the paper's table 2."""

MINUTE: Seconds = 60.0


class RPM(Policy):
    """O(log tenants) for each request that was held."""

    parts: ClassVar[tuple[str, ...]] = ("held",)

    def __init__(self, cost_model: CostModel, *, limit: int = REQUESTS_PER_MINUTE) -> None:
        if limit < 1:
            raise ValueError(f"limit={limit}: a tenant needs at least 1 request a minute")
        super().__init__(cost_model)
        self.limit = limit
        self._minute = 0
        self._entered: dict[TenantId, int] = {}
        self._entries = 0
        self._line: OrderedDict[RequestId, int] = OrderedDict()
        self._held: dict[TenantId, OrderedDict[RequestId, int]] = {}

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(0, entry or arrival), or for a held request (1, minutes until it enters, arrival). O(requests held back)."""
        if request.status is RequestState.RUNNING:
            return (0, request.sequence)
        if (entry := self._line.get(request.id)) is not None:
            return (0, entry)
        minutes, sequence = next(m[:2] for m in self._minutes(self._held[request.tenant]) if m[2] == request.id)
        return (1, minutes, sequence)

    def head(self) -> RequestId | None:
        return next(iter(self._line), None)

    def in_order(self) -> Iterator[RequestId]:
        held = heapq.merge(*(self._minutes(requests) for requests in self._held.values()))
        return chain(self._line, (request for *_, request in held))

    def held_until(self) -> Seconds | None:
        return (self._minute + 1) * MINUTE if self._held else None

    def time_passed(self, now: Seconds) -> None:
        minute = int(now // MINUTE)
        if minute > self._minute:
            self._minute = minute
            self._entered = {tenant: min(len(requests), self.limit) for tenant, requests in self._held.items()}
            self._let_through()

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        self.time_passed(now)
        if request.preemptions:
            self._line[request.id] = request.place_in_line
            self._line.move_to_end(request.id, last=False)
        elif (entered := self._entered.get(request.tenant, 0)) < self.limit:
            self._entered[request.tenant] = entered + 1
            self._enter(request.id)
        else:
            self._held.setdefault(request.tenant, OrderedDict())[request.id] = request.sequence

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        if request.id in self._line:
            del self._line[request.id]
        else:
            self._release(request.tenant, request.id)

    def _minutes(self, held: OrderedDict[RequestId, int]) -> Iterator[tuple[int, int, RequestId]]:
        """A tenant's held requests with the minutes after which they enter, and their arrival."""
        return ((place // self.limit, sequence, request) for place, (request, sequence) in enumerate(held.items()))

    def _let_through(self) -> None:
        """A minute starts: the first held requests of each tenant join the queue, in order of arrival."""
        first = [
            [(sequence, tenant, request) for request, sequence in islice(requests.items(), self.limit)]
            for tenant, requests in self._held.items()
        ]
        for _, tenant, request in heapq.merge(*first):
            self._release(tenant, request)
            self._enter(request)

    def _enter(self, request: RequestId) -> None:
        """The request goes to the end of the line."""
        self._entries += 1
        self._line[request] = self._entries

    def _release(self, tenant: TenantId, request: RequestId) -> None:
        held = self._held[tenant]
        del held[request]
        if not held:
            del self._held[tenant]
