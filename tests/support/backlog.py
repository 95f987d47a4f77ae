"""How far tenants that wait get from one another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from justitia_scheduling.model import TenantId
from justitia_scheduling.policy import Policy
from support.reserving_engine import Job, ReservingEngine


@dataclass(frozen=True)
class Gap:
    """Of two tenants that wait: normalised service of `ahead` less that of `behind` since both have been waiting,
    and the same of their counters, 0 where the policy has none.
    """

    ahead: TenantId
    behind: TenantId
    service: float
    counter: float


def gaps(policy: Policy, capacity: int, workload: Sequence[Job], weight: Mapping[TenantId, float]) -> Iterator[Gap]:
    """Serve the workload to its end; after every iteration, the gaps of all ordered pairs of tenants that wait."""
    for tenant, w in weight.items():
        policy.set_weight(tenant, w, 0)
    engine = ReservingEngine(policy, capacity, workload)
    counters = getattr(policy, "counters", None)
    since: dict[tuple[TenantId, TenantId], float] = {}
    while not engine.done:
        engine.tick()
        waiting = engine.backlogged()
        for f, g in permutations(weight, 2):
            if not {f, g} <= waiting:
                since.pop((f, g), None)
                continue
            gap = policy.service[f] / weight[f] - policy.service[g] / weight[g]
            start = since.setdefault((f, g), gap)
            yield Gap(f, g, gap - start, counters[f] - counters[g] if counters else 0.0)
