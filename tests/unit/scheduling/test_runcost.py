"""What a run is expected to cost, from what is told and what it shows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.estimate import FIRST_ESTIMATE
from justitia_scheduling.core.model import Request, Run, kv_token_time
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.policies.runcost import RENEWED_BEYOND, RunCosts
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

RHO = 50.0
THETA, LEARNED = 2.0, 3.0


def opened(
    costs: RunCosts,
    cost: float | None = None,
    prompt: float | None = None,
    name: str = "r",
    *,
    tenant: str = "t",
    application: str = "a",
) -> OpenRun:
    run = OpenRun(Run(RunId(name), TenantId(tenant), ApplicationId(application), cost, prompt), 0, 0.0)
    costs.opened(run, RHO)
    return run


def request(run: OpenRun, prompt: int, name: str = "q") -> OpenRequest:
    return OpenRequest(Request(RequestId(name), run.id, prompt), run, 0, 0.0)


def serve(costs: RunCosts, of: OpenRequest, produced: int) -> None:
    costs.left(of)
    of.prefilled, of.produced = of.request.prompt_tokens, produced
    cost = kv_token_time(of.request.prompt_tokens, produced) + RHO * of.request.prompt_tokens
    of.run.attained += cost
    costs.attained(of.run, cost)
    costs.closed(of, True)


def test_what_is_told_counts_prompts_at_what_reading_them_takes() -> None:
    costs = RunCosts(THETA, LEARNED)
    assert costs[opened(costs, cost=1000, prompt=20).id] == 1000 + 20 * RHO


def test_prompts_that_were_not_told_are_in_proportion_to_the_cost_as_in_other_runs() -> None:
    costs = RunCosts(THETA, LEARNED)
    first = opened(costs)
    asked = request(first, 100)
    costs.asked(asked, RHO)
    serve(costs, asked, 10)
    per_cost = 100 / kv_token_time(100, 10)
    assert costs[opened(costs, cost=5000, name="s").id] == pytest.approx(5000 + RHO * 5000 * per_cost)


def test_an_untold_run_takes_its_applications_mean() -> None:
    costs = RunCosts(THETA, LEARNED)
    first = opened(costs)
    assert costs[first.id] == FIRST_ESTIMATE
    asked = request(first, 100)
    costs.asked(asked, RHO)
    serve(costs, asked, 10)
    costs.ended(first)
    assert costs[opened(costs, name="s").id] == kv_token_time(100, 10) + 100 * RHO


def test_a_wide_stage_shows_at_once_what_was_claimed_to_be_small() -> None:
    costs = RunCosts(THETA, LEARNED)
    earlier = opened(costs, name="earlier")
    call = request(earlier, 10)
    costs.asked(call, RHO)
    serve(costs, call, 20)
    run = opened(costs, cost=1000, prompt=10)
    each = 1000 * 20 + 20**2 / 2 + 1000 * RHO
    asked = [request(run, 1000, f"q{i}") for i in range(3)]
    assert [costs.asked(q, RHO) for q in asked] == [True, False, True]
    assert costs[run.id] == 3 * each


def test_a_request_that_was_admitted_counts_with_what_it_attains() -> None:
    costs = RunCosts(THETA, LEARNED)
    run, other = opened(costs, cost=30_000, prompt=0), opened(costs, cost=30_000, prompt=0, name="other")
    for of, leaves in ((run, True), (other, False)):
        first, second = request(of, 1000, f"{of.id}1"), request(of, 1000, f"{of.id}2")
        assert not costs.asked(first, RHO)
        if leaves:
            costs.left(first)
        assert costs.asked(second, RHO) is not leaves


def test_what_a_request_is_expected_to_produce_is_measured_and_not_told() -> None:
    costs = RunCosts(THETA, LEARNED)
    run = opened(costs, cost=1.0, prompt=1.0)
    claims = OpenRequest(Request(RequestId("q"), run.id, 1000, predicted_output=1.0), run, 0, 0.0)
    claims_more = OpenRequest(Request(RequestId("q2"), run.id, 1000, predicted_output=1e6), run, 0, 0.0)
    for call in (claims, claims_more):
        costs.asked(call, RHO)
    assert costs[run.id] == pytest.approx(1000 * (1 + RHO) + 0.5)


def test_what_an_application_is_told_is_taken_for_what_it_has_been_worth() -> None:
    costs = RunCosts(THETA, LEARNED)
    for number, (told, aborted) in enumerate([(None, False), (1e6, True), (1e6, False)]):
        run = opened(costs, cost=told, prompt=0, name=f"r{number}")
        expected = costs[run.id]
        asked = request(run, 100)
        costs.asked(asked, RHO)
        serve(costs, asked, 10)
        run.aborted = aborted
        costs.ended(run)
        assert told is None or expected == 1e6
    cost = kv_token_time(100, 10) + 100 * RHO
    assert costs[opened(costs, cost=1e6, prompt=0).id] == pytest.approx(cost)


def complete(costs: RunCosts, run: OpenRun) -> float:
    """Serve the run with one request of a fixed size. Returns what it costs."""
    asked = request(run, 100, f"{run.id} q")
    costs.asked(asked, RHO)
    serve(costs, asked, 10)
    costs.ended(run)
    return kv_token_time(100, 10) + 100 * RHO


@pytest.mark.parametrize("told", [1e6, 100.0])
def test_what_a_new_application_is_told_is_taken_for_what_its_tenant_has_been_worth(told: float) -> None:
    costs = RunCosts(THETA, LEARNED)
    for number in range(3):
        cost = complete(costs, opened(costs, cost=told, prompt=0, name=f"r{number}"))
    new, others = (
        opened(costs, told, 0, f"of {t}", tenant=t, application=f"new of {t}") for t in ("t", "another tenant")
    )
    assert costs[others.id] == told
    assert cost / 2 < costs[new.id] < 2 * cost


def test_a_tenant_whose_predictions_come_true_is_believed_for_new_applications() -> None:
    costs = RunCosts(THETA, LEARNED)
    for number in range(3):
        truth = kv_token_time(100, 10) + 100 * RHO
        complete(costs, opened(costs, cost=truth, prompt=0, name=f"r{number}"))
    assert costs[opened(costs, cost=1e6, prompt=0, name="new", application="new").id] == 1e6


def test_the_runs_that_were_open_before_anything_had_finished_count_in_the_record() -> None:
    costs = RunCosts(THETA, LEARNED)
    together = [opened(costs, cost=1e6, prompt=0, name=f"r{number}") for number in range(3)]
    cost = complete(costs, together[0])
    complete(costs, together[1])
    costs.renewed(together[2].run.application)
    assert costs[together[2].id] < 3 * cost


@pytest.mark.parametrize(("told", "theta"), [(FIRST_ESTIMATE, THETA), (None, LEARNED)])
def test_a_mean_is_revised_later_than_what_was_told(told: float | None, theta: float) -> None:
    costs = RunCosts(THETA, LEARNED)
    run = opened(costs, cost=told, prompt=0)
    increment = theta * costs[run.id]
    run.attained += increment
    assert not costs.attained(run, increment)
    run.attained += 1
    assert costs.attained(run, 1)
    assert costs[run.id] == theta * run.attained


@given(
    told=st.none() | st.floats(1, 1e7),
    stages=st.lists(
        st.lists(st.tuples(st.integers(1, 2000), st.integers(1, 500)), min_size=1, max_size=5), min_size=1, max_size=5
    ),
)
def test_revisions_are_few_and_attained_never_exceeds_theta_times_the_estimate(
    told: float | None, stages: list[list[tuple[int, int]]]
) -> None:
    costs, theta = RunCosts(THETA, LEARNED), LEARNED if told is None else THETA
    run = opened(costs, cost=told, prompt=0)
    first, revisions, known, waiting = costs[run.id], 0, 0.0, 0.0
    finished: list[int] = []
    for number, stage in enumerate(stages):
        calls = [request(run, prompt, f"q{number}.{i}") for i, (prompt, _) in enumerate(stage)]
        for call in calls:
            before = costs[run.id]
            revisions += costs.asked(call, RHO)
            assert (costs[run.id] != before) <= (costs[run.id] > theta * before)
            p, d = call.request.prompt_tokens, sum(finished) / len(finished) if finished else 1.0
            waiting += p * d + d * d / 2 + RHO * p
        known = max(known, run.attained + waiting)
        waiting = 0.0
        for call, (_, output) in zip(calls, stage, strict=True):
            before = costs[run.id]
            serve(costs, call, output)
            finished.append(output)
            revisions += costs[run.id] != before
            assert run.attained <= theta * costs[run.id]
        known = max(known, run.attained)
    if revisions:
        assert revisions < 1 + math.log(max(known, theta * run.attained) / first) / math.log(theta)


def test_tokens_that_others_share_count_neither_as_read_nor_as_held() -> None:
    costs = RunCosts(THETA, LEARNED)
    first = opened(costs)
    asked = request(first, 100)
    costs.asked(asked, RHO)
    costs.left(asked)
    asked.cached, asked.prefilled, asked.produced = 40, 60, 10
    costs.closed(asked, True)
    per_cost = 60 / kv_token_time(60, 10)
    assert costs[opened(costs, cost=5000, name="s").id] == pytest.approx(5000 + RHO * 5000 * per_cost)


def renewed_by(costs: RunCosts, mean: float) -> list[OpenRun]:
    """The application finishes its first run, of that cost. Returns those open runs whose estimate has fallen by it."""
    application = ApplicationId("a")
    done = opened(costs, name="done")
    assert costs.renewed(application) == [], "nothing is known yet"
    done.attained += mean
    costs.attained(done, mean)
    costs.ended(done)
    return costs.renewed(application)


def test_a_run_that_was_estimated_when_nothing_was_known_is_named_when_its_estimate_falls() -> None:
    costs = RunCosts(THETA, LEARNED)
    waiting = opened(costs, name="waiting")
    assert renewed_by(costs, 500.0) == [waiting]
    assert costs[waiting.id] == 500
    assert costs.renewed(ApplicationId("a")) == []


@pytest.mark.parametrize(("less", "falls"), [(0.0, False), (0.01, True)])
def test_an_estimate_falls_only_where_it_is_beyond_the_factor(less: float, falls: bool) -> None:
    costs = RunCosts(THETA, LEARNED)
    waiting = opened(costs, name="waiting")
    mean = FIRST_ESTIMATE / RENEWED_BEYOND
    assert RENEWED_BEYOND * mean == FIRST_ESTIMATE, "at the bound itself"
    assert (renewed_by(costs, mean - less) == [waiting]) is falls


@pytest.mark.parametrize(("less", "falls"), [(0.0, True), (0.01, False)])
def test_an_estimate_does_not_fall_to_where_it_would_be_revised_soon(less: float, falls: bool) -> None:
    """What the run has shown times the factor is theta times the present estimate, or more."""
    costs = RunCosts(THETA, LEARNED)
    waiting = opened(costs, name="waiting")
    costs.asked(request(waiting, 1000), RHO)
    shown = 1000 * (1 + RHO) + 0.5
    mean = RENEWED_BEYOND * shown / LEARNED
    assert LEARNED * mean == RENEWED_BEYOND * shown, "at the bound itself"
    assert (renewed_by(costs, mean - less) == [waiting]) is falls
