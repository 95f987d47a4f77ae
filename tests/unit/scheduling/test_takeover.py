from dataclasses import replace

import pytest

from justitia_scheduling.baselines.registry import POLICIES, build_policy
from justitia_scheduling.core.cost import KVTokenTimeCost, WeightedTokens
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.opened import RequestState
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.takeover import carry_over
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

A, B = TenantId("a"), TenantId("b")


def busy(name: str) -> Policy:
    """Two tenants: r1 runs and has produced, r2 waits, run 2 is idle between stages, run 3 waits."""
    policy = build_policy(name, WeightedTokens())
    policy.set_capacity(1000, 0)
    policy.set_weight(A, 3, 0)
    for number, tenant in enumerate([A, A, B], start=1):
        policy.run_arrived(Run(RunId(f"run{number}"), tenant, ApplicationId("app")), 0)
    for request, run in [("r1", "run1"), ("r2", "run1"), ("done", "run2"), ("r3", "run3")]:
        policy.request_arrived(Request(RequestId(request), RunId(run), 10), 0)
    for request in ("r1", "done"):
        policy.admitted(RequestId(request), 1)
        policy.stepped(Step([Progress(RequestId(request), 10, 1)]), 2)
    policy.finished(RequestId("done"), 3)
    return policy


@pytest.mark.parametrize("new_name", sorted(POLICIES))
@pytest.mark.parametrize("old_name", sorted(POLICIES))
def test_everything_open_is_carried_and_nothing_is_charged_again(old_name: str, new_name: str) -> None:
    old, new = busy(old_name), build_policy(new_name, WeightedTokens())
    old.in_cache = lambda _: 7
    carry_over(old, new, 5, keep_service=True)
    assert new.in_cache is old.in_cache
    assert new.service == old.service
    assert new.weights == old.weights
    assert new.capacity == old.capacity
    assert {r.id: r.kv_token_time for r in new.runs.values()} == {r.id: r.kv_token_time for r in old.runs.values()}
    assert {r.id: (r.status, r.produced) for r in new.requests.values()} == {
        r.id: (r.status, r.produced) for r in old.requests.values()
    }


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_new_policy_serves_all_to_the_end(name: str) -> None:
    new = build_policy(name, WeightedTokens())
    carry_over(busy("fcfs"), new, 5, keep_service=True)
    waiting = {r.id for r in new.waiting()}
    assert waiting == {"r2", "r3"}
    for _ in range(2):
        head = new.head()
        assert head is not None
        new.admitted(head, 6)
        waiting.remove(head)
    assert not waiting
    before = dict(new.service)
    for request in ("r1", "r2", "r3"):
        new.stepped(Step([Progress(RequestId(request), produced=1)]), 7)
        new.finished(RequestId(request), 8)
    assert {t: new.service[t] - before[t] for t in before} == {A: 4, B: 2}
    for number in (1, 2, 3):
        new.run_ended(RunId(f"run{number}"), 9)
    assert not new.runs
    assert not new.requests


def test_service_starts_anew_in_another_unit() -> None:
    new = build_policy("vtc", KVTokenTimeCost())
    carry_over(busy("vtc"), new, 5, keep_service=False)
    assert set(new.service.values()) == {0.0}


def test_the_old_policy_is_left_as_it_is() -> None:
    old = busy("tiered-justitia")
    requests = {r.id: replace(r) for r in old.requests.values()}
    carry_over(old, build_policy("fcfs", WeightedTokens()), 5, keep_service=True)
    assert {r.id: r.status for r in old.requests.values()} == {i: r.status for i, r in requests.items()}
    assert old.requests[RequestId("r1")].status is RequestState.RUNNING
