"""What the engines of a pool have served its tenants: a total for each engine and tenant, which only grows.

Each engine publishes its own totals, and everybody reads all of them. What is read is merged by maximum, so nothing is
counted twice and nothing that arrives later is lost, whatever messages are repeated, dropped, late or out of order. An
engine whose totals began anew goes by another name. Totals are in the cost model's unit.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NewType

from justitia_vocabulary.units import TenantId

EngineName = NewType("EngineName", str)


class PoolService:
    """The largest total that was seen of each engine and tenant."""

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[EngineName, TenantId], float] = defaultdict(float)

    def merge(self, engine: EngineName, totals: Mapping[TenantId, float]) -> dict[TenantId, float]:
        """Take in an engine's totals. Returns by how much each tenant's has grown, of those that have."""
        grown: dict[TenantId, float] = {}
        for tenant, total in totals.items():
            if (more := total - self._seen[engine, tenant]) > 0:
                self._seen[engine, tenant] = total
                grown[tenant] = more
        return grown
