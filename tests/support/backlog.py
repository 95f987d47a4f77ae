"""How far tenants that wait get from one another, and the histories that such tests serve."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import TenantId
from support.reserving_engine import Job, ReservingEngine


@dataclass(frozen=True)
class Gap:
    """Two tenants that wait: normalised service of `ahead` less that of `behind` since both have been waiting,
    and the same of their counters, 0 where the policy has none.
    """

    ahead: TenantId
    behind: TenantId
    service: float
    counter: float


def jobs(tenants: Sequence[TenantId], predicted: SearchStrategy[float | None]) -> SearchStrategy[list[Job]]:
    """Single requests of these tenants, the predicted cost of each drawn."""
    return st.lists(
        st.builds(
            Job,
            tenant=st.sampled_from(tenants),
            prompt=st.integers(1, 30),
            output=st.integers(1, 30),
            arrival=st.integers(0, 60),
            predicted=predicted,
            run=st.none(),
            boosted_for=st.none() | st.floats(1, 100),
        ),
        min_size=10,
        max_size=80,
    )


def weights(tenants: Sequence[TenantId]) -> SearchStrategy[dict[TenantId, float]]:
    return st.fixed_dictionaries({tenant: st.floats(0.25, 4) for tenant in tenants})


def gaps(
    policy: Policy,
    capacity: int,
    workload: Sequence[Job],
    weight: Mapping[TenantId, float],
    host: type[ReservingEngine] = ReservingEngine,
) -> Iterator[Gap]:
    """Serve the workload to its end; after every iteration, the gaps of all ordered pairs of tenants that wait."""
    for tenant, w in weight.items():
        policy.set_weight(tenant, w, 0)
    engine = host(policy, capacity, workload)
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
