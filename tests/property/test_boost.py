"""What UniBoost and DistBoost promise, on an engine that preempts.

With fixed gamma and token times every boost is between 0 and b_max = b_gamma(the time of one quantum of tokens). So a
request that arrives more than b_max after another is never admitted before it: whatever comes later, only finitely much
work is ever ahead of a request. Least attained service and shortest remaining work have no such bound.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.baselines.distboost import DistBoost
from justitia_scheduling.baselines.mlfq import MLFQ
from justitia_scheduling.core.cost import EngineTime, KVTokenTimeCost, StepTime
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.boost import Boosted, boost
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.srpt import SRPT
from justitia_scheduling.policies.uniboost import Priority, UniBoost, quantised, signal
from justitia_vocabulary.policies import HYSTERESIS
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, Seconds, TenantId
from support.displacing_engine import Call, DisplacingEngine
from support.examples import examples

QUANTUM = 8
CAPACITY = 64
EACH: Seconds = 0.001
"""Engine seconds for every token, of either kind."""

calls = st.lists(
    st.builds(Call, prompt=st.integers(1, 30), output=st.integers(1, 30), arrival=st.floats(0, 4)),
    min_size=5,
    max_size=60,
)


class Watched(UniBoost):
    """Remembers each key it computes, with the signal and the work."""

    def __init__(self, quantum: int) -> None:
        super().__init__(KVTokenTimeCost(), quantum=quantum, delta=0.0)
        self.keys: Counter[RequestId] = Counter()
        self.seen: defaultdict[RequestId, list[tuple[int, Seconds]]] = defaultdict(list)

    def prioritise(self, request: OpenRequest, least_work: Seconds) -> Priority:
        priority = super().prioritise(request, least_work)
        self.keys[request.id] += 1
        self.seen[request.id].append((signal(request), priority.work))
        return priority


def most_keys(call: Call) -> int:
    return 1 + max(0, math.floor(math.log2(call.size / QUANTUM)))


@given(workload=calls, gamma=st.sampled_from([0.05, 1.0, 20.0]))
@examples(60)
def test_keys_are_few_requests_make_way_seldom_and_the_signal_never_falls(workload: list[Call], gamma: float) -> None:
    policy = Watched(QUANTUM)
    policy.boosting.tail.bound(gamma, gamma)
    engine = DisplacingEngine(policy, CAPACITY, workload).run()
    assert len(engine.finished) == len(workload)
    for request, call in engine.calls.items():
        assert policy.keys[request] <= most_keys(call)
        assert engine.gave_way[request] <= most_keys(call) - 1
        assert policy.seen[request] == sorted(policy.seen[request])
        works = [work for _, work in policy.seen[request]]
        assert works == sorted(works)


def test_work_is_in_seconds_with_the_mix_of_prefill_and_decode_and_stands_when_the_engine_becomes_faster() -> None:
    policy = Watched(QUANTUM)
    queue_of(policy, [(0.0, 10)])
    request = RequestId("q0")
    policy.admitted(request, 0.0)
    policy.stepped(Step([Progress(request, prefilled=10)], 1.0), 1.0)
    policy.stepped(Step([Progress(request, produced=6)], 6.0), 7.0)
    assert policy.seen[request][-1] == (16, pytest.approx(10 * 0.1 + 6 * 1.0))
    queue_of_one_more(policy, 7.0)
    policy.admitted(RequestId("later"), 7.0)
    policy.stepped(Step([Progress(RequestId("later"), prefilled=10**6, produced=10**6)], 1.0), 8.0)
    policy.stepped(Step([Progress(request, produced=16)], 0.001), 9.0)
    assert policy.seen[request][-1] == (32, pytest.approx(7.0))


def test_a_smaller_quantum_breaks_the_bound_on_keys() -> None:
    policy = Watched(1)
    engine = DisplacingEngine(policy, CAPACITY, [Call(1, 30)]).run()
    assert any(policy.keys[request] > most_keys(call) for request, call in engine.calls.items())


def with_fixed_times(kind: Callable[[EngineTime], Boosted], gamma: float) -> Boosted:
    policy = kind(EngineTime(StepTime(0.0, EACH, 0.0)))
    policy.boosting.tail.bound(gamma, gamma)
    return policy


def overtakings(policy: Policy, workload: list[Call], by_more_than: Seconds) -> int:
    """How often a request was admitted before one that waited and had arrived so much earlier."""
    engine = DisplacingEngine(policy, CAPACITY, workload, observed=False)
    count = 0

    def look(head: RequestId) -> None:
        nonlocal count
        first = min(request.arrival for request in policy.waiting())
        count += policy.requests[head].arrival > first + by_more_than

    engine.on_admission = look
    engine.run()
    assert len(engine.finished) == len(workload)
    return count


@given(workload=calls, gamma=st.sampled_from([2.0, 5.0, 20.0]), delta=st.sampled_from([0.0, 0.1, HYSTERESIS]))
@examples(60)
def test_who_arrives_a_largest_boost_later_never_overtakes(workload: list[Call], gamma: float, delta: float) -> None:
    policy = with_fixed_times(lambda cost: UniBoost(cost, quantum=QUANTUM, delta=delta), gamma)
    assert overtakings(policy, workload, boost(QUANTUM * EACH, gamma)) == 0


@given(workload=calls, gamma=st.sampled_from([2.0, 5.0, 20.0]))
@examples(40)
def test_split_queues_have_the_same_bound_with_one_prompt_token(workload: list[Call], gamma: float) -> None:
    assert overtakings(with_fixed_times(DistBoost, gamma), workload, boost(EACH, gamma)) == 0


def long_one_behind_a_stream(seconds: Seconds) -> list[Call]:
    """The engine is full at first; then 20 short requests a second beside one that needs half of it."""
    return [Call(4, 60, 0.0), Call(30, 30, 0.1), *(Call(2, 10, 0.1 + 0.05 * i) for i in range(int(seconds * 20)))]


def test_the_bound_on_overtaking_is_reached_from_below_and_broken_by_shortest_remaining_work() -> None:
    workload = long_one_behind_a_stream(8.0)
    boosted, again = (with_fixed_times(lambda cost: UniBoost(cost, quantum=QUANTUM, delta=0.1), 5.0) for _ in range(2))
    bound = boost(QUANTUM * EACH, 5.0)
    assert overtakings(SRPT(KVTokenTimeCost()), workload, bound) > 0
    assert overtakings(boosted, workload, bound) == 0
    assert overtakings(again, workload, 0.3 * bound) > 0


SHORT, LONG = Call(50, 50), Call(100, 1000)


def endless_short_ones_and_a_long_one(rate: float, seconds: Seconds) -> list[Call]:
    return [LONG, *(Call(SHORT.prompt, SHORT.output, (i + 1) / rate) for i in range(int(rate * seconds)))]


def unlimited(kind: type[Policy]) -> Policy:
    return kind(EngineTime(StepTime(0.0, EACH, 0.0)))


def test_endless_short_requests_delay_a_long_one_and_do_not_starve_it_as_other_orders_do() -> None:
    """The stream alone is more than the engine can serve."""
    gamma, until = 0.5, 160.0
    workload = endless_short_ones_and_a_long_one(30.0, until)
    overtaking = [call for call in workload if call.arrival <= boost(256 * EACH, gamma)]
    capacity = LONG.size + SHORT.prompt
    alone = DisplacingEngine(FCFS(KVTokenTimeCost()), capacity, overtaking).run().now

    eager = with_fixed_times(lambda cost: UniBoost(cost, delta=0.1), gamma)
    boosted = DisplacingEngine(eager, capacity, workload, observed=False)
    assert boosted.run(1.5 * alone).finished.keys() >= {"q0"}
    assert boosted.gave_way["q0"] > 0, "it had to make way, but not for ever"
    for kind in (MLFQ, SRPT):
        starving = DisplacingEngine(unlimited(kind), capacity, workload, observed=False)
        assert "q0" not in starving.run(until).finished
        assert until > 3 * 1.5 * alone


def queue_of(policy: Policy, requests: list[tuple[float, int]]) -> list[str]:
    """The order in which a policy would admit requests, each (arrival, prompt)."""
    for i, (arrival, prompt) in enumerate(requests):
        policy.run_arrived(Run(RunId(f"r{i}"), TenantId("t"), ApplicationId("a")), arrival)
        policy.request_arrived(Request(RequestId(f"q{i}"), RunId(f"r{i}"), prompt), arrival)
    return [str(request) for request in policy.order()]


waiting = st.lists(st.tuples(st.floats(0, 100), st.integers(1, 20_000)), min_size=2, max_size=30).map(sorted)


@given(requests=waiting)
@examples(60)
def test_gamma_to_infinity_is_first_come_first_served_and_to_0_least_service(requests: list[tuple[float, int]]) -> None:
    arrived = [f"q{i}" for i in range(len(requests))]
    assert queue_of(with_fixed_times(UniBoost, 1e6), requests) == arrived
    by_service = sorted(arrived, key=lambda q: (quantised(requests[int(q[1:])][1]), int(q[1:])))
    assert queue_of(with_fixed_times(UniBoost, 1e-9), requests) == by_service
    assert queue_of(with_fixed_times(DistBoost, 1e6), requests) == arrived


LONG_THEN_SHORT = [(0.0, 8000), (1.0, 100)]


@pytest.mark.parametrize("kind", [UniBoost, DistBoost])
def test_a_short_prompt_overtakes_a_long_one_that_came_before_but_not_long_before(kind: type[Boosted]) -> None:
    assert queue_of(with_fixed_times(kind, 0.1), LONG_THEN_SHORT) == ["q1", "q0"]
    assert queue_of(with_fixed_times(kind, 0.1), [(0.0, 8000), (60.0, 100)]) == ["q0", "q1"]


@pytest.mark.parametrize("kind", [UniBoost, DistBoost])
def test_tokens_given_for_seconds_are_first_come_first_served(kind: type[Boosted]) -> None:
    """The mistake of units: nothing fails, nothing is boosted."""
    tokens_as_seconds = kind(EngineTime(StepTime(0.0, 1.0, 0.0)))
    tokens_as_seconds.boosting.tail.bound(0.1, 0.1)
    assert queue_of(tokens_as_seconds, LONG_THEN_SHORT) == ["q0", "q1"]


def started(policy: Policy, prompt: int, steps: int, now: Seconds = 0.0) -> RequestId:
    """A request that runs, prefilled and with that many steps of a token each."""
    name = f"running{len(policy.requests)}"
    policy.run_arrived(Run(RunId(name), TenantId("t"), ApplicationId("a")), now)
    request = RequestId(name)
    policy.request_arrived(Request(request, RunId(name), prompt), now)
    assert policy.head() == request
    policy.admitted(request, now)
    policy.stepped(Step([Progress(request, prefilled=prompt, produced=1)]), now)
    for _ in range(steps - 1):
        policy.stepped(Step([Progress(request, produced=1)]), now)
    return request


def test_a_running_request_makes_way_once_it_has_crossed_a_threshold_and_again_at_the_next() -> None:
    policy = with_fixed_times(lambda cost: UniBoost(cost, quantum=QUANTUM, delta=0.1), 0.1)
    running = started(policy, prompt=10, steps=5)
    queue_of(policy, [(0.5, 1)])
    assert policy.gives_way() is None, "15 tokens: the minimum run ends at 16"
    policy.stepped(Step([Progress(running, produced=1)]), 1.0)
    assert policy.gives_way() == running
    policy.preempted(running, 1.0)
    assert policy.gives_way() is None
    policy.admitted(RequestId("q0"), 1.0)
    policy.finished(RequestId("q0"), 1.0)
    policy.admitted(running, 1.0)
    queue_of_one_more(policy, 1.0)
    policy.stepped(Step([Progress(running, recomputed=16, produced=15)]), 1.0)
    assert policy.gives_way() is None, "what is computed again is no progress"
    policy.stepped(Step([Progress(running, produced=1)]), 1.0)
    assert policy.gives_way() == running


def queue_of_one_more(policy: Policy, now: Seconds) -> None:
    policy.run_arrived(Run(RunId("later"), TenantId("t"), ApplicationId("a")), now)
    policy.request_arrived(Request(RequestId("later"), RunId("later"), 1), now)


@pytest.mark.parametrize(("delta", "makes_way"), [(0.0, True), (0.1, True), (0.5, False)])
def test_it_makes_way_only_for_a_head_that_is_better_by_delta_over_gamma(delta: float, makes_way: bool) -> None:
    gamma = 0.1
    policy = with_fixed_times(lambda cost: UniBoost(cost, quantum=QUANTUM, delta=delta), gamma)
    started(policy, prompt=10, steps=6)
    ahead = boost(QUANTUM * EACH, gamma) - boost(2 * QUANTUM * EACH, gamma)
    queue_of(policy, [(ahead - 3.0, 1)])
    assert (policy.gives_way() is not None) == makes_way, "the head is 3 seconds better; delta / gamma is 0, 1, 5"


@pytest.mark.parametrize(("doublings", "makes_way"), [(2, False), (3, True)])
def test_as_it_is_set_only_eight_times_the_work_of_the_head_makes_way(doublings: int, makes_way: bool) -> None:
    """Where gamma * work is small a doubling costs ln 2 / gamma: delta = 2 lies between the second and the third."""
    policy = with_fixed_times(lambda cost: UniBoost(cost, quantum=QUANTUM), 1e-6)
    started(policy, prompt=1, steps=QUANTUM * 2**doublings)
    queue_of(policy, [(0.0, 1)])
    assert (policy.gives_way() is not None) == makes_way


def test_when_kv_runs_out_the_worst_goes_even_within_its_minimum_run() -> None:
    policy = with_fixed_times(UniBoost, 0.1)
    early = started(policy, prompt=10, steps=1)
    large = started(policy, prompt=9000, steps=1)
    assert policy.gives_way() is None
    assert policy.victim() == large
    policy.preempted(large, 0.0)
    assert policy.victim() is None
    assert set(policy.running) == {early}


def test_keys_stand_when_gamma_moves() -> None:
    policy = with_fixed_times(UniBoost, 0.1)
    order = queue_of(policy, LONG_THEN_SHORT)
    policy.boosting.tail.bound(1e6, 1e6)
    assert policy.order() == order == ["q1", "q0"]
    assert queue_of(with_fixed_times(UniBoost, 1e6), LONG_THEN_SHORT) != order


def test_split_queues_never_disturb_who_decodes_and_evict_the_last_to_have_started() -> None:
    policy = with_fixed_times(DistBoost, 0.1)
    first = started(policy, prompt=9000, steps=3)
    second = started(policy, prompt=10, steps=1)
    queue_of(policy, [(0.0, 1)])
    assert policy.gives_way() is None
    assert policy.victim() == second
    policy.preempted(second, 0.0)
    assert policy.victim() is None
    assert set(policy.running) == {first}


def test_gamma_follows_completion_times() -> None:
    """Whole workload: requests that all take about equally long have a thin tail, so gamma rises to its bound."""
    policy = UniBoost(KVTokenTimeCost())
    DisplacingEngine(policy, 10_000, [Call(10, 3, float(i)) for i in range(600)]).run()
    assert policy.boosting.tail.gamma > 1.0
