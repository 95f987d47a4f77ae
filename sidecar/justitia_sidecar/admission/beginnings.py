"""Requests that the engine has and has not begun, where the order is kept in front of it.

A streamed request has begun at its first chunk. Another one is taken to have begun when its prefill should be over, by
the fitted step time. While `UNSTARTED` requests have not begun, all others wait, so the engine's own queue stays short.

A streamed request that takes longer than its patience, for a grammar or media, is overdue: others no longer wait for
it. A tenant is stuck when one of its requests is overdue and `UNSTARTED` of them have not begun: no further one is sent
until one has begun. So a tenant can delay others for one patience at a time, and then only its own requests.
"""

from collections import defaultdict

from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import RequestId, Seconds, TenantId

UNSTARTED = 2
PATIENCE: Seconds = 1.0
"""The least time after which a streamed request that has not begun is overdue."""
SLOWER = 4
"""The patience in multiples of the time that the prefill should take, where that is longer."""


class Beginnings:
    def __init__(self) -> None:
        self._given: dict[RequestId, tuple[TrackedRequest, Seconds]] = {}
        """Requests that others wait for, each with when it should have begun."""
        self._overdue: dict[RequestId, TrackedRequest] = {}
        self._overdue_of: defaultdict[TenantId, int] = defaultdict(int)

    @property
    def full(self) -> bool:
        """Whether no further request may be sent."""
        return len(self._given) >= UNSTARTED

    @property
    def next_due(self) -> Seconds | None:
        """When the next request should have begun."""
        return min((due for _, due in self._given.values()), default=None)

    def stuck(self, tenant: TenantId) -> bool:
        overdue = self._overdue_of.get(tenant, 0)
        return overdue > 0 and overdue + sum(r.tenant == tenant for r, _ in self._given.values()) >= UNSTARTED

    def given(self, request: TrackedRequest, now: Seconds, prefill: Seconds) -> None:
        """Note that the engine has a request, whose prompt it should read in `prefill` seconds."""
        patience = max(PATIENCE, SLOWER * prefill) if request.asks.streamed else prefill
        self._given[request.id] = request, now + patience

    def over(self, request: TrackedRequest) -> None:
        """Note that a request has begun, or is over."""
        self._given.pop(request.id, None)
        if self._overdue.pop(request.id, None) is not None:
            self._overdue_of[request.tenant] -= 1
            if not self._overdue_of[request.tenant]:
                del self._overdue_of[request.tenant]

    def look(self, now: Seconds) -> None:
        """Let nobody wait any longer for requests that should have begun by now."""
        for request, due in list(self._given.values()):
            if now >= due:
                del self._given[request.id]
                if request.asks.streamed:
                    self._overdue[request.id] = request
                    self._overdue_of[request.tenant] += 1
