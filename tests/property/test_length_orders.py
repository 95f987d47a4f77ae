"""The orders that UniBoost is compared with: shortest remaining work, least attained service, shortest output."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia_scheduling.baselines.ltr import LTR
from justitia_scheduling.baselines.mlfq import MLFQ
from justitia_scheduling.baselines.sarathi import Sarathi
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.lengths import FIRST_OUTPUT
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.srpt import SRPT
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from support.displacing_engine import Call, DisplacingEngine

COST = KVTokenTimeCost()
CAPACITY = 2000

calls = st.lists(
    st.builds(Call, prompt=st.integers(1, 600), output=st.integers(1, 600), arrival=st.floats(0, 10)),
    min_size=5,
    max_size=25,
)


def ask(policy: Policy, name: str, prompt: int, predicted: float | None = None, application: str = "a") -> RequestId:
    run = RunId(name)
    policy.run_arrived(Run(run, TenantId("t"), ApplicationId(application)), 0.0)
    policy.request_arrived(Request(RequestId(name), run, prompt, predicted), 0.0)
    return RequestId(name)


def progress(policy: Policy, request: RequestId, prefilled: int = 0, produced: int = 0) -> None:
    policy.stepped(Step([Progress(request, prefilled, produced)]), 0.0)


def finish(policy: Policy, name: str, produced: int, application: str = "a") -> None:
    """A request of that application comes and goes."""
    request = ask(policy, name, 1, 0.5, application)
    while (head := policy.head()) != request:
        assert head is not None
        policy.admitted(head, 0.0)
    policy.admitted(request, 0.0)
    progress(policy, request, prefilled=1, produced=produced)
    policy.finished(request, 0.0)


# Shortest remaining work.


def expected_output(policy: SRPT, request: RequestId) -> float:
    """The expected output of a request that waits and has produced nothing."""
    waiting = policy.requests[request]
    return policy.order_key(waiting)["remainingTokens"] - waiting.request.prompt_tokens


def test_shortest_remaining_work_counts_the_prompt_until_it_is_processed() -> None:
    policy = SRPT(COST)
    running = ask(policy, "running", prompt=500, predicted=100)
    policy.admitted(running, 0.0)
    ask(policy, "head", prompt=50, predicted=100)
    assert policy.gives_way() == running, "600 tokens are left, the head has 150"
    progress(policy, running, prefilled=400)
    assert policy.gives_way() == running, "200 against 150"
    progress(policy, running, prefilled=100)
    assert policy.gives_way() is None, "100 against 150"


@pytest.mark.parametrize(("produced", "makes_way"), [(59, True), (60, True), (61, False)])
def test_past_six_tenths_of_its_predicted_output_a_request_does_not_make_way(produced: int, makes_way: bool) -> None:
    policy = SRPT(COST)
    running = ask(policy, "running", prompt=10, predicted=100)
    policy.admitted(running, 0.0)
    progress(policy, running, prefilled=10, produced=produced)
    ask(policy, "head", prompt=1, predicted=1)
    assert policy.gives_way() == (running if makes_way else None)


def test_when_kv_runs_out_a_request_past_six_tenths_goes_only_if_there_is_no_other() -> None:
    policy = SRPT(COST)
    late = ask(policy, "late", prompt=10, predicted=1000)
    policy.admitted(late, 0.0)
    progress(policy, late, prefilled=10, produced=601)
    early = ask(policy, "early", prompt=10, predicted=20)
    policy.admitted(early, 0.0)
    assert policy.victim() == early
    progress(policy, early, prefilled=10, produced=19)
    assert policy.victim() == late


def test_what_is_not_predicted_is_the_mean_of_the_application_then_of_all_then_a_constant() -> None:
    policy = SRPT(COST)
    assert expected_output(policy, ask(policy, "a", prompt=1)) == FIRST_OUTPUT
    policy.aborted(RequestId("a"), 0.0)
    finish(policy, "b", 10, "short")
    finish(policy, "c", 50, "long")
    finish(policy, "d", 30, "long")
    requests = {name: ask(policy, name + "?", 1, None, name) for name in ("long", "unknown", "short")}
    expected = {"long": 40, "unknown": 30, "short": 10}
    for name, request in requests.items():
        assert expected_output(policy, request) == expected[name]
    assert policy.order() == [requests[name] for name in ("short", "unknown", "long")]


def test_an_aborted_request_teaches_nothing_about_lengths() -> None:
    policy = SRPT(COST)
    gone = ask(policy, "gone", prompt=1)
    policy.admitted(gone, 0.0)
    progress(policy, gone, prefilled=1, produced=7)
    policy.aborted(gone, 0.0)
    assert expected_output(policy, ask(policy, "next", prompt=1)) == FIRST_OUTPUT


# Least attained service.


def test_the_most_attained_service_makes_way_after_a_quantum_for_one_with_a_quantum_less() -> None:
    policy = MLFQ(COST)
    running = ask(policy, "running", prompt=200)
    policy.admitted(running, 0.0)
    progress(policy, running, prefilled=200, produced=55)
    ask(policy, "head", prompt=900)
    assert policy.gives_way() is None, "255 tokens"
    progress(policy, running, produced=1)
    assert policy.gives_way() == running
    policy.preempted(running, 0.0)
    policy.admitted(RequestId("head"), 0.0)
    progress(policy, RequestId("head"), prefilled=511)
    assert policy.gives_way() is None, "511 against 256 attained"
    progress(policy, RequestId("head"), prefilled=1)
    assert policy.gives_way() == "head"


def test_no_request_makes_way_in_the_quantum_after_its_admission() -> None:
    policy = MLFQ(COST)
    running = ask(policy, "running", prompt=1000)
    policy.admitted(running, 0.0)
    progress(policy, running, prefilled=1000)
    policy.preempted(running, 0.0)
    policy.admitted(running, 0.0)
    ask(policy, "head", prompt=1)
    policy.stepped(Step([Progress(running, recomputed=1000, produced=255)]), 0.0)
    assert policy.gives_way() is None
    progress(policy, running, produced=1)
    assert policy.gives_way() == running


@given(workload=calls)
@settings(max_examples=25)
def test_a_request_makes_way_at_most_once_for_each_quantum_of_its_tokens(workload: list[Call]) -> None:
    engine = DisplacingEngine(MLFQ(COST), CAPACITY, workload).run()
    assert all(engine.gave_way[request] <= call.size // 256 for request, call in engine.calls.items())


@pytest.mark.parametrize("kind", [MLFQ, SRPT, LTR])
@given(workload=calls)
@settings(max_examples=15)
def test_all_are_served_to_the_end(kind: type[Policy], workload: list[Call]) -> None:
    assert len(DisplacingEngine(kind(COST), CAPACITY, workload).run().finished) == len(workload)


# Shortest first, with promotion.

PATIENCE = 40.0


def stream_and_a_long_one(seconds: float) -> list[Call]:
    """Two at a time fit; more short ones come than can be served, and a long one comes early."""
    return [*(Call(10, 10, 0.1 * i) for i in range(int(10 * seconds))), Call(10, 30, 0.15)]


def steps_waited(policy: Policy, seconds: float) -> float:
    """By the long one, infinite if it is not admitted."""
    workload = stream_and_a_long_one(seconds)
    engine = DisplacingEngine(policy, 40, workload)
    arrived, admitted = math.inf, math.inf
    long = RequestId(f"q{len(workload) - 1}")
    while engine.now < seconds and admitted == math.inf:
        engine.step()
        if long in policy.requests:
            arrived = min(arrived, engine.steps)
        if long in engine.admissions:
            admitted = engine.steps
    return admitted - arrived


def test_a_long_request_waits_through_its_patience_and_one_service_whatever_comes() -> None:
    waited = steps_waited(LTR(COST, patience=PATIENCE), 40.0)
    assert PATIENCE <= waited <= PATIENCE + 10 + 2
    assert steps_waited(LTR(COST, patience=math.inf), 40.0) == math.inf, "without the guard it starves"
    assert steps_waited(SRPT(COST), 40.0) == math.inf


@given(workload=calls, patience=st.sampled_from([1.0, 20.0, 200.0]))
@settings(max_examples=25)
def test_who_has_waited_out_its_patience_is_overtaken_by_none_that_has_waited_less(
    workload: list[Call], patience: float
) -> None:
    policy = LTR(COST, patience=patience)
    engine = DisplacingEngine(policy, CAPACITY, workload)
    since: dict[RequestId, int] = {}

    def look(head: RequestId) -> None:
        for request in policy.waiting():
            since.setdefault(request.id, engine.steps)
        longest = max(engine.steps - since[request.id] for request in policy.waiting())
        assert longest < patience or engine.steps - since[head] == longest

    engine.on_admission = look
    while len(engine.finished) < len(workload):
        engine.run(engine.now + 1e-9)
        for request in policy.waiting():
            since.setdefault(request.id, engine.steps - 1)


def test_promoted_requests_go_in_the_order_of_promotion_and_the_others_by_length() -> None:
    policy = LTR(COST, patience=3.0)
    running = ask(policy, "running", prompt=1, predicted=99)
    policy.admitted(running, 0.0)
    for name, predicted in (("long", 50), ("longer", 60)):
        ask(policy, name, prompt=1, predicted=predicted)
        progress(policy, running, produced=1)
    ask(policy, "short", prompt=1, predicted=5)
    ask(policy, "longest", prompt=1, predicted=70)
    assert policy.order() == ["short", "long", "longer", "longest"]
    progress(policy, running, produced=1)
    assert policy.order() == ["long", "short", "longer", "longest"]
    progress(policy, running, produced=1)
    assert policy.order() == ["long", "longer", "short", "longest"]
    assert policy.gives_way() is None


def test_a_promoted_request_is_the_last_to_lose_its_kv_for_ten_steps_and_then_waits_at_the_front() -> None:
    policy = LTR(COST, patience=1.0)
    short = ask(policy, "short", prompt=1, predicted=5)
    policy.admitted(short, 0.0)
    long = ask(policy, "long", prompt=1, predicted=500)
    later = ask(policy, "later", prompt=1, predicted=400)
    progress(policy, short, produced=1)
    policy.admitted(long, 0.0)
    assert policy.victim() == short
    assert policy.head() == later
    policy.preempted(long, 0.0)
    assert policy.head() == long
    policy.admitted(long, 0.0)
    for _ in range(10):
        policy.stepped(Step([Progress(short, produced=1), Progress(long, produced=1)]), 0.0)
    assert policy.victim() == long
    policy.aborted(later, 0.0)
    policy.preempted(long, 0.0)
    ask(policy, "other", prompt=1, predicted=9)
    assert policy.head() == "other"


def test_a_preempted_request_waits_through_its_patience_anew() -> None:
    policy = LTR(COST, patience=5.0)
    running = ask(policy, "running", prompt=1, predicted=1)
    policy.admitted(running, 0.0)
    long = ask(policy, "long", prompt=1, predicted=50)
    for _ in range(3):
        progress(policy, running, produced=1)
    policy.admitted(long, 0.0)
    policy.preempted(long, 0.0)
    ask(policy, "short", prompt=1, predicted=5)
    for _ in range(4):
        progress(policy, running, produced=1)
    assert policy.head() == "short"
    progress(policy, running, produced=1)
    assert policy.head() == long


def test_hosts_that_tell_of_each_request_by_itself_count_the_same_steps() -> None:
    policy = LTR(COST, patience=3.0)
    running = [ask(policy, f"running{i}", prompt=1, predicted=1 + i) for i in range(4)]
    for request in running:
        policy.admitted(request, 0.0)
    ask(policy, "long", prompt=1, predicted=50)
    ask(policy, "short", prompt=1, predicted=5)
    for _ in range(2):
        for request in running:
            progress(policy, request, produced=1)
    assert policy.head() == "short"
    policy.stepped(Step([Progress(request, produced=1) for request in running]), 0.0)
    assert policy.head() == "long"


# Sarathi.


@given(workload=calls)
@settings(max_examples=15)
def test_sarathi_admits_in_the_order_of_first_come_first_served(workload: list[Call]) -> None:
    engines = [DisplacingEngine(kind(COST), CAPACITY, workload).run() for kind in (Sarathi, FCFS)]
    assert engines[0].admissions == engines[1].admissions
    arrivals = [workload[int(request[1:])].arrival for request in engines[0].admissions]
    assert arrivals == sorted(arrivals)
