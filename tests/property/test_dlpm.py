"""DLPM keeps its bound whatever the cache has; and within it, what the cache has goes first."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.baselines.dlpm import DLPM
from justitia_scheduling.core.cost import KVTokenTimeCost, WeightedTokens
from justitia_scheduling.core.model import Request, Run
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId, Tokens
from support import backlog
from support.examples import examples
from support.reserving_engine import Job

CAPACITY = 64
TENANTS = [TenantId(f"t{i}") for i in range(3)]
jobs = backlog.jobs(TENANTS, st.none())
weights = backlog.weights(TENANTS)


def excess(policy: DLPM, workload: list[Job], weight: dict[TenantId, float], quantum: float) -> float:
    """By how much two tenants that wait got further apart than the bound says; 0 or less where it holds."""
    u = float(CAPACITY * max(job.output for job in workload))
    gaps = backlog.gaps(policy, CAPACITY, workload, weight)
    return max(
        (gap.service - 2 * quantum - u / weight[gap.ahead] - u / weight[gap.behind] for gap in gaps), default=-math.inf
    )


class LongestPrefixOnly(DLPM):
    """Without deficits: the control."""

    def _refills(self, tenant: TenantId) -> int:
        return 0


def favouring(tenant: TenantId, policy: DLPM) -> DLPM:
    """The cache has nothing but this tenant's prompts."""
    policy.in_cache = lambda name: 100 if policy.requests[name].tenant == tenant else 0
    return policy


@given(workload=jobs, weight=weights, quantum=st.floats(1, 500), seed=st.integers(0, 10))
@examples(60)
def test_tenants_that_wait_stay_within_the_bound_whatever_the_cache_has(
    workload: list[Job], weight: dict[TenantId, float], quantum: float, seed: int
) -> None:
    policy = DLPM(KVTokenTimeCost(), quantum=quantum)
    policy.in_cache = lambda name: random.Random(f"{seed}/{name}").randrange(100)
    assert excess(policy, workload, weight, quantum) <= 1e-6


def test_without_deficits_the_tenant_that_the_cache_favours_breaks_the_bound() -> None:
    flood = [Job(tenant, 10, 20) for tenant in TENANTS[:2] for _ in range(90)]
    equal = dict.fromkeys(TENANTS, 1.0)
    assert excess(favouring(TENANTS[0], LongestPrefixOnly(KVTokenTimeCost(), quantum=50)), flood, equal, 50) > 0
    assert excess(favouring(TENANTS[0], DLPM(KVTokenTimeCost(), quantum=50)), flood, equal, 50) <= 0


def waiting(policy: DLPM, **cached: Tokens) -> None:
    """A request of 10 tokens for each name; its first letter is its tenant."""
    for name in cached:
        run = RunId(name)
        policy.run_arrived(Run(run, TenantId(name[0]), ApplicationId("a")), 0.0)
        policy.request_arrived(Request(RequestId(name), run, 10), 0.0)
    policy.in_cache = lambda name: cached[name]


def test_the_longest_prefix_goes_first_and_equals_in_order_of_arrival() -> None:
    policy = DLPM(WeightedTokens())
    waiting(policy, a1=0, a2=8, b1=4, a3=8)
    assert policy.order() == ["a2", "a3", "b1", "a1"]


def test_a_tenant_without_credit_waits_though_the_cache_has_its_prompt() -> None:
    policy = DLPM(WeightedTokens(), quantum=5.0)
    waiting(policy, a1=9, a2=9, a3=9, b1=0)
    assert policy.head() == "a1"
    # Both get a quantum of 5; a1 costs 10.
    policy.admitted(RequestId("a1"), 0.0)
    assert policy.order() == ["b1", "a2", "a3"]
    policy.admitted(RequestId("b1"), 0.0)
    assert policy.head() == "a2"


def test_what_is_kept_for_a_run_is_deducted() -> None:
    policy = DLPM(KVTokenTimeCost(), quantum=5.0)
    policy.set_capacity(100, 0.0)
    waiting(policy, a1=9, b1=0)
    policy.kept(RunId("a1"), 20.0, 0.0)
    assert policy.head() == "b1"
