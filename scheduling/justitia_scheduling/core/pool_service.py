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


def raise_to(seen: dict[TenantId, float], totals: Mapping[TenantId, float]) -> dict[TenantId, float]:
    """Raise what was seen of one engine to the totals that are larger. Returns by how much each has grown, of those
    that have.
    """
    grown: dict[TenantId, float] = {}
    for tenant, total in totals.items():
        if (more := total - seen.get(tenant, 0.0)) > 0:
            seen[tenant] = total
            grown[tenant] = more
    return grown


class PoolService:
    """The largest total that was seen of each engine and tenant."""

    def __init__(self) -> None:
        self._seen: defaultdict[EngineName, dict[TenantId, float]] = defaultdict(dict)

    def merge(self, engine: EngineName, totals: Mapping[TenantId, float]) -> dict[TenantId, float]:
        """Take in an engine's totals. Returns by how much each tenant's has grown, of those that have."""
        return raise_to(self._seen[engine], totals)
