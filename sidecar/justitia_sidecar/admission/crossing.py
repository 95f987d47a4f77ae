"""What is between here and the scheduler inside the engine: of each tenant a few requests at a time.

The engine's server takes requests in order of arrival, whosever they are, and needs milliseconds for each. What a
tenant sends at once would keep the requests of all others waiting there, where no weight counts. So the others of a
tenant stay here while `MOST` of its requests cross. One that takes longer than `PATIENCE`, for media or a long prompt,
keeps none of them back any more.
"""

from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import RequestId, Seconds, TenantId

MOST = 16
PATIENCE: Seconds = 1.0


class Crossing:
    def __init__(self) -> None:
        self._due: dict[TenantId, dict[RequestId, Seconds]] = {}
        """When each request on its way counts as late; infinite until it is sent."""

    def full(self, tenant: TenantId) -> bool:
        """Whether the tenant's other requests stay here."""
        return len(self._due.get(tenant, ())) >= MOST

    def begins(self, request: TrackedRequest) -> None:
        self._due.setdefault(request.tenant, {})[request.id] = float("inf")

    def sent(self, request: TrackedRequest, now: Seconds) -> None:
        if request.id in self._due.get(request.tenant, ()):
            self._due[request.tenant][request.id] = now + PATIENCE

    def over(self, request: TrackedRequest) -> bool:
        """It has arrived, or will not. Returns whether it was crossing."""
        return self._remove(request.tenant, request.id)

    def look(self, now: Seconds) -> list[TenantId]:
        """Tenants of which some took too long, and keep none back any more."""
        late = [(t, r) for t, crossing in self._due.items() for r, due in crossing.items() if now >= due]
        for tenant, request in late:
            self._remove(tenant, request)
        return list(dict.fromkeys(tenant for tenant, _ in late))

    def _remove(self, tenant: TenantId, request: RequestId) -> bool:
        crossing = self._due.get(tenant, {})
        was = crossing.pop(request, None) is not None
        if was and not crossing:
            del self._due[tenant]
        return was
