"""What the cache has lets runs of one tenant change places, by a bounded amount, and no tenant's share moves."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import EngineTime, KVTokenTimeCost, StepTime
from justitia_scheduling.core.gps import in_kv_token_time
from justitia_scheduling.core.model import Request, Run
from justitia_scheduling.policies import locality
from justitia_scheduling.policies.locality import CANDIDATES, GAIN
from justitia_scheduling.policies.tiered import THETA, TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId, Tokens
from support import backlog
from support.examples import examples
from support.reserving_engine import Job

STEP = StepTime(per_step=0.01, per_token=0.001, per_kv_token=0.0001)
CAPACITY = 1000
TENANTS = [TenantId(f"t{i}") for i in range(3)]


def waiting(costs: list[float], in_cache: Callable[[RequestId], Tokens] | None) -> TieredJustitia:
    """A run of each of these predicted costs waits, all of one tenant."""
    policy = TieredJustitia(EngineTime(STEP))
    policy.set_capacity(CAPACITY, 0.0)
    policy.in_cache = in_cache
    for i, cost in enumerate(costs):
        run = RunId(f"r{i}")
        policy.run_arrived(Run(run, TenantId("t"), ApplicationId("a"), cost), 0.0)
        policy.request_arrived(Request(RequestId(f"r{i}"), run, 100), 0.0)
    return policy


def test_of_runs_of_one_cost_the_one_goes_first_that_the_cache_has_most_of() -> None:
    assert waiting([100.0] * 3, None).head() == "r0"
    assert waiting([100.0] * 3, lambda name: {"r1": 40, "r2": 80}.get(name, 0)).head() == "r2"


def test_where_the_cache_has_nothing_the_order_is_that_of_the_keys() -> None:
    assert waiting([3e6, 1e6, 2e6], lambda _: 0).head() == waiting([3e6, 1e6, 2e6], None).head() == "r1"


@given(
    costs=st.lists(st.floats(1, 1e6), min_size=1, max_size=30),
    cached=st.lists(st.integers(0, 99), min_size=30, max_size=30),
)
@examples(150)
def test_a_run_is_passed_by_no_more_than_what_reading_again_is_worth(costs: list[float], cached: list[int]) -> None:
    policy = waiting(costs, lambda name: cached[int(name[1:])])
    head = policy.head()
    assert head is not None
    order = policy.order()
    place = order.index(head)
    assert place < CANDIDATES
    behind = policy.stretched_tag(policy.runs[RunId(head)]) - policy.stretched_tag(policy.runs[RunId(order[0])])
    rho = policy.cost_model.prompt_work(CAPACITY)
    assert in_kv_token_time(behind) <= GAIN * rho * (cached[int(head[1:])] - cached[int(order[0][1:])]) + 1e-6


@pytest.mark.parametrize(("gain", "first"), [(GAIN, "r0"), (3 * GAIN, "r1")])
def test_a_larger_gain_lets_it_be_passed_by_more(gain: float, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the second run costs what lies between the two gains."""
    monkeypatch.setattr(locality, "GAIN", gain)
    rho = EngineTime(STEP).prompt_work(CAPACITY)
    costs = [1e6, 1e6 + 2 * GAIN * rho * 50 / THETA]
    assert waiting(costs, lambda name: 50 if name == "r1" else 0).head() == first


def test_no_more_requests_are_asked_for_than_there_are_candidates() -> None:
    asked: list[RequestId] = []

    def ask(name: RequestId) -> Tokens:
        asked.append(name)
        return 0

    policy = waiting([float(i + 1) for i in range(1000)], ask)
    asked.clear()
    policy.head()
    assert len(asked) == CANDIDATES


class ReadingIsDear(TieredJustitia):
    @property
    def _prompt_work(self) -> float:
        return 50.0


@given(
    workload=backlog.jobs(TENANTS, st.none() | st.floats(1, 1e6)),
    weight=backlog.weights(TENANTS),
    burst=st.floats(0, 500),
)
@examples(60)
def test_the_gates_bound_holds_though_the_cache_favours_one_tenant(
    workload: list[Job], weight: dict[TenantId, float], burst: float
) -> None:
    policy = ReadingIsDear(KVTokenTimeCost(), burst=burst)
    policy.in_cache = lambda name: 30 if policy.requests[name].tenant == TENANTS[0] else 0
    u = 64.0 * max(job.output for job in workload)
    for gap in backlog.gaps(policy, 64, workload, weight):
        assert gap.counter <= burst + u / weight[gap.ahead] + 1e-6
