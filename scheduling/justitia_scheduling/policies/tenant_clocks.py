"""The virtual time V_i of each tenant i: that of GPS over the tenant's open runs, moved by what is delivered to them.

A tenant's runs are ordered by tags on its own clock, so nothing that other tenants ask for, predict or claim changes
their order (docs/design/tiered-justitia.md).
"""

from collections import defaultdict
from collections.abc import Iterable

from justitia_scheduling.core.gps import Tick, VirtualTime, in_kv_token_time
from justitia_scheduling.core.opened import OpenRun
from justitia_vocabulary.units import KVTokenTime, TenantId


class _Clock(VirtualTime):
    """`open` counts the tenant's open runs."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0


class TenantClocks:
    """The clocks of tenants with open runs. Amortised O(log runs) for each arrival, change and departure."""

    def __init__(self) -> None:
        self._clocks: defaultdict[TenantId, _Clock] = defaultdict(_Clock)
        self._compared: dict[TenantId, tuple[Tick, float]] = {}

    def arrive(self, run: OpenRun, cost: KVTokenTime) -> None:
        """A run enters its tenant's fluid server with its estimated cost."""
        clock = self._clocks[run.tenant]
        clock.open += 1
        clock.arrive(run.id, cost, 1.0)

    def tag(self, run: OpenRun, work: KVTokenTime) -> Tick:
        """V_i(a_j) + work."""
        return self._clocks[run.tenant].tag(run.id, work)

    def now(self, tenant: TenantId) -> Tick:
        """V_i."""
        return self._clocks[tenant].ticks

    def compare_from_now_on(self, tenant: TenantId, weight: float) -> None:
        """Compare the tenant's tags with others' by its clock and weight of this moment."""
        self._compared[tenant] = (self.now(tenant), weight)

    def distance(self, tenant: TenantId, tag: float) -> float:
        """(tag - V_i) / weight_i, in KV token-time, with those of the last :meth:`compare_from_now_on`."""
        clock, weight = self._compared.get(tenant, (0, 1.0))
        return in_kv_token_time(tag - clock) / weight

    def retag(self, run: OpenRun, cost: KVTokenTime) -> None:
        """The run is expected to cost that much."""
        self._clocks[run.tenant].retag(run.id, cost)

    def lift(self, run: OpenRun, work: KVTokenTime) -> None:
        """Raise V_i(a_j) to `V_i - work`, if it is smaller, as of the next change of the run's cost."""
        self._clocks[run.tenant].lift(run.id, work)

    def advance(self, delivered: Iterable[tuple[TenantId, KVTokenTime]]) -> None:
        """The engine delivered that much to runs of the tenants."""
        for tenant, work in delivered:
            self._clocks[tenant].advance(work)

    def end(self, run: OpenRun) -> None:
        """The run is over, with what it has attained. Where no other of its tenant is open, V_i begins anew."""
        clock = self._clocks[run.tenant]
        clock.open -= 1
        if clock.open:
            clock.end(run.id, run.attained)
        else:
            del self._clocks[run.tenant]
