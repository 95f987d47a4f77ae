"""What the engine was given and has not begun, where the order is kept in front of it.

A streamed request has begun at its first chunk, another one when its prefill should be over by the fitted step time. At
most `UNSTARTED` that have not begun keep others waiting, so the engine's own queue stays short. A streamed request that
takes longer than it should, for a grammar or media, is overdue: others wait for it no more. A tenant of which one is
overdue, and `UNSTARTED` have not begun, is stuck: it gives the engine no further one until one has begun. So a tenant
holds up others for the patience at a time, and then its own requests alone.
"""

from collections import defaultdict

from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import RequestId, Seconds, TenantId

UNSTARTED = 2
PATIENCE: Seconds = 1.0
"""At least so long may a streamed request take to begin before it is overdue."""
SLOWER = 4
"""So many times the time that its prefill should take, too."""


class Beginnings:
    def __init__(self) -> None:
        self._given: dict[RequestId, tuple[TrackedRequest, Seconds]] = {}
        """Each with when it should have begun."""
        self._overdue: dict[RequestId, TrackedRequest] = {}
        self._overdue_of: defaultdict[TenantId, int] = defaultdict(int)

    @property
    def full(self) -> bool:
        """Whether the engine is to be given no further request."""
        return len(self._given) >= UNSTARTED

    @property
    def next_due(self) -> Seconds | None:
        """When the next one should have begun."""
        return min((due for _, due in self._given.values()), default=None)

    def stuck(self, tenant: TenantId) -> bool:
        overdue = self._overdue_of.get(tenant, 0)
        return overdue > 0 and overdue + sum(r.tenant == tenant for r, _ in self._given.values()) >= UNSTARTED

    def given(self, request: TrackedRequest, now: Seconds, prefill: Seconds) -> None:
        """The engine has it, and should take so long to read its prompt."""
        patience = max(PATIENCE, SLOWER * prefill) if request.asks.streamed else prefill
        self._given[request.id] = request, now + patience

    def over(self, request: TrackedRequest) -> None:
        """It has begun, or is over."""
        self._given.pop(request.id, None)
        if self._overdue.pop(request.id, None) is not None:
            self._overdue_of[request.tenant] -= 1
            if not self._overdue_of[request.tenant]:
                del self._overdue_of[request.tenant]

    def look(self, now: Seconds) -> None:
        """What should have begun by now keeps nobody waiting any more."""
        for request, due in list(self._given.values()):
            if now >= due:
                del self._given[request.id]
                if request.asks.streamed:
                    self._overdue[request.id] = request
                    self._overdue_of[request.tenant] += 1
