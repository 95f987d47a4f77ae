"""Which waiting tenants have had no admission for too long.

A tenant waits while one of its requests does. Its *silence* begins when it begins to wait and with each admission that
it has while it waits on. A tenant whose silence has lasted for the interval H is *overdue* until its next admission.
"""

from collections import OrderedDict

from justitia_vocabulary.units import Seconds, TenantId

Rank = tuple[int, Seconds]
"""(0, since when its silence lasts) of an overdue tenant, which goes before all others; (1, 0) of another one."""

IN_TIME: Rank = (1, 0.0)


class Heartbeat:
    """The silences of waiting tenants. O(1) for each change. `interval` is H; who is overdue stays so if it changes."""

    def __init__(self, interval: Seconds) -> None:
        self.interval = interval
        self._silent: OrderedDict[TenantId, Seconds] = OrderedDict()
        """Tenants that are not overdue, in the order in which their silences began."""
        self._overdue: dict[TenantId, Seconds] = {}

    def silent_since(self, tenant: TenantId, now: Seconds) -> None:
        """It begins to wait, or had an admission and waits on."""
        self._silent[tenant] = now
        self._silent.move_to_end(tenant)
        self._overdue.pop(tenant, None)

    def drop(self, tenant: TenantId) -> None:
        """It does not wait any longer."""
        self._silent.pop(tenant, None)
        self._overdue.pop(tenant, None)

    def late(self, now: Seconds) -> list[TenantId]:
        """The tenants that have become overdue since this was last asked."""
        late: list[TenantId] = []
        while self._silent:
            tenant, since = next(iter(self._silent.items()))
            if now - since < self.interval:
                break
            del self._silent[tenant]
            self._overdue[tenant] = since
            late.append(tenant)
        return late

    def rank(self, tenant: TenantId) -> Rank:
        since = self._overdue.get(tenant)
        return IN_TIME if since is None else (0, since)
