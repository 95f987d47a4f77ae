"""Requests that cross from the sidecar to the plug-in: a few of each tenant at a time.

The engine's server takes requests in order of arrival, whoever sent them, and needs milliseconds for each. A burst of
one tenant would delay the requests of all others there, where no weight counts. So while `MOST` requests of a tenant
cross, its others are held back here. A request that takes longer than `PATIENCE`, for media or a long prompt, no longer
holds back any of them.
"""

from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import RequestId, Seconds, TenantId

MOST = 16
PATIENCE: Seconds = 1.0


class Crossing:
    def __init__(self) -> None:
        self._due: dict[TenantId, dict[RequestId, Seconds]] = {}
        """When each request that crosses counts as late; infinite until it is sent."""

    def full(self, tenant: TenantId) -> bool:
        """Whether the tenant's other requests are held back."""
        return len(self._due.get(tenant, ())) >= MOST

    def begins(self, request: TrackedRequest) -> None:
        self._due.setdefault(request.tenant, {})[request.id] = float("inf")

    def sent(self, request: TrackedRequest, now: Seconds) -> None:
        if request.id in self._due.get(request.tenant, ()):
            self._due[request.tenant][request.id] = now + PATIENCE

    def over(self, request: TrackedRequest) -> bool:
        """Note that a request has arrived, or never will. Returns whether it was crossing."""
        return self._remove(request.tenant, request.id)

    def look(self, now: Seconds) -> list[TenantId]:
        """Give up on requests that took too long. Returns their tenants, whose other requests may go on."""
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
