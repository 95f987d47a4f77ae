"""The policy's host inside an engine, without the engine."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from justitia_channel.messages import Arrived, Configure, Share, Ticket
from justitia_engine.host import FEW_STEPS, MANY_STEPS, UNTICKETED, EngineHost, SequenceName, knobs_of
from justitia_engine.untold import Reading, StepDone
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.model import kv_token_time
from justitia_scheduling.core.tailslope import GAMMA
from justitia_scheduling.policies.boost import Boosted
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.uniboost import UniBoost
from justitia_vocabulary.policies import HIGHEST_GAMMA, HYSTERESIS
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from support.examples import examples

GOLD, SILVER = TenantId("gold"), TenantId("silver")
APPLICATION = ApplicationId("ns/app")


def ticket(key: str, tenant: TenantId = GOLD, run: str | None = None, sequences: int = 1, cost: float = 100) -> Ticket:
    return Ticket(key, tenant, APPLICATION, RunId(run or f"run-{key}"), sequences, run_cost=cost)


def configuration(policy: str = "vtc", cost_model: str = "kv-token-time", **weights: float) -> Configure:
    return Configure(1, policy, cost_model, weights or {"gold": 3.0, "silver": 1.0})


def name(key: str, number: int = 0) -> SequenceName:
    return SequenceName(RequestId(f"{key}#{number}"), key, number)


class Counting(EngineHost):
    """With the engine's own counts of output."""

    def __init__(self) -> None:
        self.output: defaultdict[RequestId, int] = defaultdict(int)
        super().__init__(FCFS(KVTokenTimeCost()), 1000, 0.0, self.output.__getitem__)


def host(policy: str = "vtc", cost_model: str = "kv-token-time", **weights: float) -> Counting:
    made = Counting()
    made.configure(configuration(policy, cost_model, **weights), 0.0)
    return made


def step(on: Counting, sequence: RequestId, produced: int, prefilled: int = 0) -> None:
    """A step of .01 s in which that sequence alone comes to so many tokens, and of which the policy is told."""
    on.output[sequence] = produced
    on.stepped(StepDone(1, prefilled + 1, 10, (Reading(sequence, prefilled, 0),) if prefilled else (), 0.01))
    on.tell(1.0)


def preempted_after(produced: int) -> Counting:
    """A host whose only sequence, `a`, has produced so much and waits again."""
    on = host()
    on.ticket(ticket("a"), 0.0)
    on.queued(name("a"), 10, 0.0)
    on.admitted(name("a").id, 0, 0.0)
    step(on, name("a").id, produced, prefilled=10)
    on.preempted(name("a").id, 1.0)
    return on


def gamma(of: EngineHost) -> float | None:
    return of.snapshot().policy.gamma


def bounded(floor: float, ceiling: float, policy: str = "uniboost", cost_model: str = "kv-token-time") -> Configure:
    return Configure(2, policy, cost_model, {"gold": 3.0}, {"gammaFloor": floor, "gammaCeiling": ceiling})


def test_bounds_of_gamma_take_effect_without_another_policy_and_defaults_return_without_them() -> None:
    on = host("uniboost")
    policy = on.policy
    assert gamma(on) == GAMMA
    on.configure(bounded(2.0, 3.0), 1.0)
    assert gamma(on) == 2.0
    on.configure(bounded(0.01, 0.05), 1.0)
    assert gamma(on) == 0.05
    report = on.snapshot().policy
    assert (report.gamma, report.gamma_estimate) == (0.05, GAMMA)
    on.configure(configuration("uniboost"), 2.0)
    assert gamma(on) == GAMMA, "what was estimated stands"
    on.configure(bounded(HIGHEST_GAMMA, HIGHEST_GAMMA), 3.0)
    assert gamma(on) == HIGHEST_GAMMA
    assert on.policy is policy


def test_hysteresis_is_what_is_told_and_else_the_policys_own() -> None:
    on = host("uniboost")
    assert isinstance(on.policy, UniBoost)
    on.configure(replace(configuration("uniboost"), knobs={"hysteresis": 0.5}), 1.0)
    assert on.policy.delta == 0.5
    on.configure(bounded(2.0, 3.0), 2.0)
    assert on.policy.delta == HYSTERESIS


def bursting(burst: float | None, policy: str = "tiered-justitia") -> Configure:
    return replace(configuration(policy), knobs={} if burst is None else {"burst": burst})


def burst(of: EngineHost) -> float:
    found = of.snapshot().policy.burst
    assert found is not None
    return found


def test_the_burst_is_the_one_that_is_told_and_else_the_cost_models() -> None:
    on = host("tiered-justitia")
    usual = burst(on)
    for told, found in ((usual / 2, usual / 2), (0.0, 0.0), (2 * usual, 2 * usual), (None, usual)):
        on.configure(bursting(told), 1.0)
        assert burst(on) == found


@pytest.mark.parametrize("told", [bursting(-1.0), bursting(1.0, "vtc"), replace(bursting(1.0), weights={"gold": 0.0})])
def test_a_burst_that_is_not_valid_changes_nothing(told: Configure) -> None:
    on = host("tiered-justitia")
    policy, before = on.policy, burst(on)
    with pytest.raises(ValueError, match=r"burst|weights"):
        on.configure(told, 1.0)
    assert (on.policy, burst(on)) == (policy, before)


def test_a_knob_of_a_later_release_is_passed_over_and_those_beside_it_are_set() -> None:
    on = host("uniboost")
    told = replace(bounded(2.0, 3.0), knobs={"gammaFloor": 2.0, "gammaCeiling": 3.0, "warmth": 1.0})
    on.configure(told, 1.0)
    assert gamma(on) == 2.0
    assert knobs_of(told)[1] == {"warmth"}


def test_what_a_token_takes_is_told_beside_gamma() -> None:
    on = host("uniboost")
    assert isinstance(on.policy, Boosted)
    times = on.policy.boosting.token_time
    report = on.snapshot().policy
    assert (report.prefill_time, report.decode_time) == (times.prefill(), times.decode(0))
    assert host("vtc").snapshot().policy.prefill_time is None


def test_bounds_hold_for_a_policy_that_comes_with_them() -> None:
    on = host("vtc")
    on.configure(bounded(2.0, 3.0), 1.0)
    assert gamma(on) == 2.0


@pytest.mark.parametrize(
    "told",
    [
        bounded(3.0, 2.0),
        bounded(0.0, 2.0),
        bounded(1.0, float("inf")),
        bounded(2.0, 3.0, policy="vtc"),
        bounded(2.0, 3.0, cost_model="guess"),
        replace(bounded(2.0, 3.0), weights={"gold": 0.0}),
    ],
)
def test_bounds_that_are_not_valid_change_nothing(told: Configure) -> None:
    on = host("uniboost")
    policy, weights, before = on.policy, dict(on.policy.weights), gamma(on)
    with pytest.raises(ValueError, match=r"gamma|weights|cost model"):
        on.configure(told, 1.0)
    assert on.policy is policy
    assert (policy.weights, gamma(on)) == (weights, before)


def test_another_policy_sees_each_arrival_at_its_own_time() -> None:
    """By UniBoost of two alike the earlier goes first, however late it takes over, and both before a later one."""
    on = host("vtc", gold=1.0, silver=9.0)
    for key, tenant, at in (("a", GOLD, 1.0), ("b", SILVER, 2.0)):
        on.ticket(ticket(key, tenant), at)
        on.queued(name(key), 100, at)
    on.configure(bounded(2.0, 3.0), 500.0)
    assert [r.arrival for r in on.policy.requests.values()] == [1.0, 2.0]
    on.ticket(ticket("c"), 501.0)
    on.queued(name("c"), 100, 501.0)
    assert on.policy.order() == [name(key).id for key in "abc"]


@pytest.mark.parametrize("policy", ["fcfs", "justitia", "tiered-justitia", "uniboost", "srpt", "sjf"])
def test_what_was_preempted_is_known_as_such_to_another_policy_and_told_to_the_sidecar_once(policy: str) -> None:
    on = preempted_after(3)
    on.configure(configuration(policy), 2.0)
    assert on.policy.head() == name("a").id
    assert on.admitted(name("a").id, 0, 3.0) is None
    closed = on.closed(name("a").id, 4, True, 4.0)
    assert closed is not None
    assert (closed.preemptions, closed.charge, closed.produced) == (1, kv_token_time(10, 4), 4)


def test_a_sequence_belongs_to_the_tenant_and_the_run_of_its_ticket() -> None:
    on = host()
    on.ticket(ticket("a", run="r"), 0.0)
    on.queued(name("a"), 10, 1.0)
    request = on.policy.requests[name("a").id]
    assert (request.tenant, request.run.id, request.run.run.predicted_cost) == (GOLD, "r", 100)


def test_all_sequences_of_a_request_take_its_one_ticket() -> None:
    on = host()
    on.ticket(ticket("a", sequences=3), 0.0)
    for number in range(4):
        on.queued(name("a", number), 10, 1.0)
    assert [r.tenant for r in on.policy.requests.values()] == [GOLD, GOLD, GOLD, UNTICKETED]


def test_a_sequence_that_ends_without_a_ticket_is_counted_and_one_whose_ticket_came_late_is_not() -> None:
    on = host()
    for key in ("a", "b"):
        on.queued(name(key), 10, 0.0)
    on.ticket(ticket("a"), 1.0)
    for key in ("a", "b"):
        on.closed(name(key).id, 0, finished=False, now=2.0)
    assert (on.counters.unticketed, on.counters.late_tickets) == (1, 1)


def test_without_a_ticket_a_sequence_is_of_the_lowest_weight() -> None:
    on = host(gold=3.0, silver=0.5)
    on.queued(name("a"), 10, 0.0)
    assert on.policy.weight(UNTICKETED) == 0.5


@pytest.mark.parametrize("admitted", [False, True])
def test_a_ticket_that_comes_late_moves_the_sequence_to_its_run(admitted: bool) -> None:
    on = host()
    on.queued(name("a"), 10, 0.0)
    if admitted:
        on.admitted(name("a").id, 0, 0.0)
        step(on, name("a").id, 5, prefilled=10)
    on.ticket(ticket("a"), 2.0)
    assert on.policy.requests[name("a").id].tenant == GOLD
    assert on.counters.late_tickets == 1
    assert [run.run.tenant for run in on.policy.runs.values()] == [GOLD]
    if not admitted:
        on.admitted(name("a").id, 0, 2.0)
        step(on, name("a").id, 5, prefilled=10)
    step(on, name("a").id, 8)
    closed = on.closed(name("a").id, 8, True, 3.0)
    assert closed is not None
    assert (closed.prompt_tokens, closed.produced) == (10, 8)
    whole, before = kv_token_time(10, 8), kv_token_time(10, 5) if admitted else 0
    assert on.policy.service.get(UNTICKETED, 0.0) == before
    assert on.policy.service[GOLD] == closed.charge == whole - before


@pytest.mark.parametrize("preempted", [False, True])
def test_the_admission_of_a_sequence_that_moves_is_charged_and_told_once(preempted: bool) -> None:
    on = host()
    on.configure(configuration("vtc", "weighted-tokens"), 0.0)
    on.queued(name("a"), 10, 0.0)
    assert on.admitted(name("a").id, 0, 0.0) is not None
    step(on, name("a").id, 5, prefilled=10)
    if preempted:
        on.preempted(name("a").id, 1.0)
    on.ticket(ticket("a"), 2.0)
    if preempted:
        assert on.admitted(name("a").id, 0, 3.0) is None
    step(on, name("a").id, 8)
    assert on.policy.service[UNTICKETED] == 10 + 2 * 5
    assert on.policy.service[GOLD] == 2 * 3


def test_a_run_ends_when_its_last_sequence_has() -> None:
    on = host()
    for key in "ab":
        on.ticket(ticket(key, run="r"), 0.0)
        on.queued(name(key), 10, 0.0)
    on.run_ended(RunId("r"), 1.0)
    on.closed(name("a").id, 0, False, 1.0)
    assert RunId("r") in on.policy.runs
    on.closed(name("b").id, 0, False, 1.0)
    assert not on.policy.runs


def test_a_run_without_open_sequences_ends_at_once_and_an_unknown_one_is_no_error() -> None:
    on = host()
    on.ticket(ticket("a", run="r"), 0.0)
    on.queued(name("a"), 10, 0.0)
    on.closed(name("a").id, 0, False, 1.0)
    assert RunId("r") in on.policy.runs
    on.run_ended(RunId("r"), 1.0)
    on.run_ended(RunId("never seen"), 1.0)
    assert not on.policy.runs


def test_when_the_sidecar_is_another_one_its_predecessors_runs_end_as_their_sequences_do() -> None:
    on = host()
    for key in "ab":
        on.ticket(ticket(key), 0.0)
        on.queued(name(key), 10, 0.0)
    on.closed(name("a").id, 0, False, 1.0)
    on.end_runs(1.0)
    assert list(on.policy.runs) == ["run-b"]
    on.closed(name("b").id, 0, False, 1.0)
    assert not on.policy.runs


@pytest.mark.parametrize("late", [False, True], ids=["with its ticket", "with a ticket that comes late"])
def test_what_was_read_of_a_prompt_that_is_aborted_is_told_though_nothing_was_produced(late: bool) -> None:
    on, sequence = host(), name("a").id
    if not late:
        on.ticket(ticket("a"), 0.0)
    on.queued(name("a"), 50, 0.0)
    on.admitted(sequence, 0, 0.0)
    step(on, sequence, 0, prefilled=20)
    if late:
        on.ticket(ticket("a"), 0.0)
    step(on, sequence, 0, prefilled=10)
    closed = on.closed(sequence, 0, False, 1.0)
    assert closed is not None
    assert (closed.prompt_tokens, closed.read, closed.produced) == (50, 30, 0)


def test_tokens_that_came_after_a_preemption_are_charged_when_it_runs_again() -> None:
    on = preempted_after(3)
    step(on, name("a").id, 4)
    assert on.policy.service[GOLD] == kv_token_time(10, 3)
    on.admitted(name("a").id, 0, 2.0)
    step(on, name("a").id, 5)
    assert on.policy.service[GOLD] == kv_token_time(10, 5)


def test_a_sequence_that_ends_with_a_token_in_flight_though_it_was_preempted_is_charged_for_it() -> None:
    on = preempted_after(3)
    closed = on.closed(name("a").id, 4, True, 2.0)
    assert closed is not None
    assert closed.charge == kv_token_time(10, 4)
    assert not on.policy.requests


def test_what_a_sequence_had_produced_before_the_policy_came_is_charged_to_nobody() -> None:
    on = host()
    on.queued(name("a"), 10, 0.0, produced=5)
    on.admitted(name("a").id, 0, 0.0)
    step(on, name("a").id, 7)
    closed = on.closed(name("a").id, 7, True, 1.0)
    assert closed is not None
    assert (closed.prompt_tokens, closed.produced) == (10, 7)
    assert closed.charge == kv_token_time(10, 7) - kv_token_time(10, 5)


def test_a_change_of_policy_and_of_weights_keeps_what_waits_and_what_tenants_were_charged() -> None:
    on = host("vtc")
    for key, tenant in (("a", GOLD), ("b", SILVER)):
        on.ticket(ticket(key, tenant), 0.0)
        on.queued(name(key), 10, 0.0)
    on.admitted(name("a").id, 0, 0.0)
    step(on, name("a").id, 3, prefilled=10)
    on.configure(configuration("tiered-justitia", gold=1.0, silver=5.0), 1.0)
    assert on.policy.weight(SILVER) == 5.0
    assert on.policy.service[GOLD] == kv_token_time(10, 3)
    assert on.policy.head() == name("b").id
    step(on, name("a").id, 5)
    closed = on.closed(name("a").id, 5, True, 2.0)
    assert closed is not None
    assert closed.produced == 5
    assert on.policy.service[GOLD] == kv_token_time(10, 5)


@pytest.mark.parametrize(
    "told",
    [
        configuration("best-effort"),
        configuration("vtc", "dollars"),
        configuration("tiered-justitia", gold=0.0),
        replace(configuration("tiered-justitia"), applications={APPLICATION: Share(0.0)}),
    ],
    ids=["policy", "cost model", "weight", "weight of an application"],
)
def test_a_configuration_that_is_not_valid_changes_nothing(told: Configure) -> None:
    on = host("vtc", gold=3.0)
    before = on.policy
    with pytest.raises(ValueError, match=r"unknown|positive"):
        on.configure(told, 1.0)
    assert on.policy is before
    assert on.policy.weight(GOLD) == 3.0


def test_the_shares_of_applications_reach_the_policy_and_the_next_one() -> None:
    on = host("tiered-justitia")
    on.configure(replace(configuration("tiered-justitia"), applications={APPLICATION: Share(3.0, 2)}), 1.0)
    assert on.policy.share(APPLICATION) == (3.0, 2)
    on.configure(replace(configuration("vtc"), applications={APPLICATION: Share(3.0, 2)}), 2.0)
    assert on.policy.share(APPLICATION) == (3.0, 2)
    on.configure(replace(configuration("tiered-justitia"), applications={APPLICATION: Share()}), 3.0)
    assert on.policy.share(APPLICATION) == (1.0, 0)


def test_the_snapshot_has_the_service_of_the_applications_that_are_configured() -> None:
    """One that is not may have a name of anybody's choice, and there may be any number of them."""
    on = host("tiered-justitia")
    on.ticket(ticket("a"), 0.0)
    for key in ("a", "without"):
        on.queued(name(key), 10, 0.0)
        on.admitted(name(key).id, 0, 0.0)
    step(on, name("a").id, 5, prefilled=10)
    assert on.snapshot().application_service == {}
    on.configure(replace(configuration("tiered-justitia"), applications={APPLICATION: Share()}), 1.0)
    had = on.snapshot()
    assert had.application_service == {APPLICATION: had.service[GOLD]}
    assert had.service[GOLD] > 0


@given(
    events=st.lists(
        st.tuples(st.sampled_from(["ticket", "queue", "admit", "step", "preempt", "close"]), st.integers(0, 3))
    )
)
@examples(300)
def test_whatever_the_order_of_tickets_and_events_every_token_is_charged_once(events: list[tuple[str, int]]) -> None:
    on, produced, state = host("tiered-justitia"), [0] * 4, ["new"] * 4
    total = 0.0
    for event, i in events:
        key, sequence = str(i), name(str(i)).id
        match event, state[i]:
            case "ticket", _:
                on.ticket(ticket(key), 0.0)
            case "queue", "new":
                on.queued(name(key), 10, 0.0)
                state[i] = "waiting"
            case "admit", "waiting":
                on.admitted(sequence, 0, 0.0)
                state[i] = "running"
            case "step", "waiting" | "running":
                produced[i] += 1 if produced[i] or state[i] == "running" else 0
                step(on, sequence, produced[i])
            case "preempt", "running":
                on.preempted(sequence, 0.0)
                state[i] = "waiting"
            case "close", "waiting" | "running":
                closed = on.closed(sequence, produced[i], bool(produced[i]), 0.0)
                assert closed is not None
                assert closed.produced == produced[i]
                total += kv_token_time(10, produced[i])
                state[i] = "over"
    for i in range(4):
        if state[i] in {"waiting", "running"}:
            on.closed(name(str(i)).id, produced[i], False, 0.0)
            total += kv_token_time(10, produced[i])
    assert sum(on.policy.service.values()) == pytest.approx(total)
    assert not on.policy.requests
    assert on.closed(RequestId("never queued"), 0, False, 0.0) is None


def one_that_waits_for_another(prompt: int) -> tuple[Counting, RequestId]:
    """A large request of one tenant, with so long a prompt, runs, and a small one of another tenant waits."""
    on = host("tiered-justitia", gold=1.0, silver=1.0)
    long = name("long").id
    on.ticket(ticket("long", cost=1e4), 0.0)
    on.queued(name("long"), prompt, 0.0)
    on.admitted(long, 0, 0.0)
    on.ticket(ticket("small", SILVER, cost=1), 0.0)
    on.queued(name("small"), 1, 0.0)
    return on, long


def test_who_gives_way_depends_on_what_other_tenants_were_given_until_a_few_steps_ago() -> None:
    on, long = one_that_waits_for_another(10)
    assert on.gives_way(0.1) is None
    given_way = []
    for produced in range(1, FEW_STEPS + 1):
        on.output[long] = produced
        on.stepped(StepDone(1, 1, 10, (), 0.01))
        given_way.append(on.gives_way(0.1))
    assert given_way == [None] * (FEW_STEPS - 1) + [long]


def test_for_a_tenant_that_asks_for_much_the_policy_is_told_less_often() -> None:
    """A request that has just begun does not give way to it."""
    on, long = one_that_waits_for_another(1000)
    for key in range(1000):
        on.ticket(ticket(f"{key}", SILVER, cost=1), 0.0)
        on.queued(name(f"{key}"), 1, 0.0)
    assert on.gives_way(0.1) is None
    told_after = []
    for step in range(1, 2 * MANY_STEPS):
        on.output[long] = 1 + step // 10
        on.stepped(StepDone(1, 1, 1000, (), 0.01))
        had = on.policy.service[GOLD]
        assert on.gives_way(0.1) is None
        if on.policy.service[GOLD] > had:
            told_after.append(step)
    assert told_after == [MANY_STEPS]


def test_where_one_tenant_has_all_the_policy_is_not_told_for_it() -> None:
    on = host("tiered-justitia", gold=1.0)
    for key in ("long", "small"):
        on.ticket(ticket(key), 0.0)
        on.queued(name(key), 10, 0.0)
    on.admitted(name("long").id, 0, 0.0)
    for produced in range(1, 8):
        on.output[name("long").id] = produced
        on.stepped(StepDone(1, 1, 10, (), 0.01))
        assert on.gives_way(0.1) is None
    assert on.policy.service[GOLD] == 0


def test_the_arrival_of_a_request_is_said_once_with_its_first_sequence() -> None:
    on = host()
    on.ticket(ticket("a", sequences=2), 0.0)
    assert on.queued(name("a", 0), 10, 0.0) == Arrived("a")
    assert on.queued(name("a", 1), 10, 0.0) is None
    assert on.queued(name("unticketed"), 10, 0.0) == Arrived("unticketed")
