"""What tenants have been served: totals that only grow, and which of them have grown since they were last told."""

from collections.abc import Mapping

from justitia_scheduling.core.pool_service import raise_to
from justitia_vocabulary.units import TenantId


class Totals:
    def __init__(self) -> None:
        self._totals: dict[TenantId, float] = {}
        self._grown: set[TenantId] = set()

    def add_growth(self, seen: dict[TenantId, float], totals: Mapping[TenantId, float]) -> None:
        """Add what one engine's `totals` have grown by since they were `seen`, which is raised to them."""
        for tenant, more in raise_to(seen, totals).items():
            self._totals[tenant] = self._totals.get(tenant, 0.0) + more
            self._grown.add(tenant)

    def grown(self) -> dict[TenantId, float]:
        """The totals that have grown since the last call."""
        told = {tenant: self._totals[tenant] for tenant in self._grown}
        self._grown.clear()
        return told

    def tell_all(self) -> None:
        """Whoever asks next has to hear of all totals."""
        self._grown.update(self._totals)
