"""Bounds and books where the order is the engine's."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_api.config import ApplicationConfig, PoolConfig, TenantConfig
from justitia_api.wire import Refusal
from justitia_channel import messages as channel
from justitia_channel.messages import PlugInSnapshot
from justitia_channel.wire import encode
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.report import PolicyReport
from justitia_sidecar.admission import accounts, crossing
from justitia_sidecar.admission.inside import Inside
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.stages import Stage
from justitia_sidecar.engine.view import EngineView
from justitia_sidecar.pool.sharing import Sharing
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import ApplicationId, TenantId
from justitia_vocabulary.waiting import WaitingReason
from support.examples import examples
from support.listening_channel import Listening
from support.tracked import hearing, tracked_request

GOLD = TenantId("gold")
READY = EngineView(ready=True, kv_tokens=100, block_size=10, longest=90)


def room(ready: bool = True, bound: int = 1000, **limits: Any) -> tuple[Inside, Listening]:
    engine = Listening()
    config = PoolConfig(
        generation=1,
        namespace="ns",
        name="pool",
        model="m",
        queue={"maximum_requests": bound},
        tenants=(TenantConfig(name="gold", weight=1, limits=limits),),
    )
    admission = Inside(config, engine, Sharing(engine), lambda: 0.0)
    if ready:
        admission.engine_told(READY, 0)
    return admission, engine


def ask(
    admission: Inside,
    name: str,
    run: str | None = None,
    *,
    tenant: TenantId = GOLD,
    prompts: int = 1,
    sequences: int = 1,
) -> TrackedRequest:
    application = ApplicationConfig(namespace="ns", name=tenant, tenant=tenant)
    ticket = tracked_request(
        name, admission.books.runs.enter(tenant, application, run, 0), prompts=prompts, sequences=sequences
    )
    admission.enter(ticket, 0)
    admission.pump(0)
    return ticket


def closes(
    engine: Listening, ticket: TrackedRequest, produced: int, *, sequence: int = 0, cached: int = 0, read: int = 0
) -> None:
    engine.hear(channel.Closed(ticket.id, sequence, True, 50, cached, produced, 0, 1.0, read))


def cost(admission: Inside, ticket: TrackedRequest) -> float:
    return ticket.run.cost


def begins(engine: Listening, ticket: TrackedRequest) -> None:
    engine.hear(channel.Admitted(ticket.id, 0))


def test_requests_go_on_at_once_each_with_a_ticket_whatever_the_kv_space() -> None:
    admission, engine = room()
    tickets = [ask(admission, name, run="r") for name in "abcde"]
    assert [t.stage for t in tickets] == [Stage.SENT] * 5
    assert [t.key for t in engine.tickets()] == list("abcde")
    assert len({t.run for t in engine.tickets()}) == 1
    assert {(t.tenant, t.application) for t in engine.tickets()} == {("gold", "ns/gold")}


def test_what_the_engine_has_not_begun_with_counts_as_queued() -> None:
    admission, engine = room(bound=2)
    first, _ = ask(admission, "a"), ask(admission, "b")
    with pytest.raises(RefusalError) as refused:
        admission.books.check_room(GOLD, ApplicationId("ns/gold"))
    assert refused.value.refusal is Refusal.QUEUE_FULL
    begins(engine, first)
    admission.books.check_room(GOLD, ApplicationId("ns/gold"))
    assert (admission.books.queued, admission.books.load[GOLD].queued, admission.books.load[GOLD].running) == (1, 1, 1)


def test_a_tenant_at_its_limit_of_running_requests_keeps_the_others_here() -> None:
    admission, engine = room(running_requests=2)
    first, second, third = (ask(admission, name) for name in "abc")
    assert [t.key for t in engine.tickets()] == ["a", "b"]
    assert [(t.id, reason) for t, reason in admission.waiting(0)] == [("c", WaitingReason.TENANT_LIMIT)]
    begins(engine, first)
    begins(engine, second)
    admission.leave(first, 1, completed=True)
    assert third.stage is Stage.SENT


def arrives(engine: Listening, ticket: TrackedRequest) -> None:
    engine.hear(channel.Arrived(ticket.id))


def test_of_a_tenant_few_cross_at_a_time_and_others_pass_them() -> None:
    admission, engine = room()
    tickets = [ask(admission, f"gold-{i}") for i in range(crossing.MOST + 3)]
    assert [t.key for t in engine.tickets()] == [t.id for t in tickets[: crossing.MOST]]
    assert [(t.id, why) for t, why in admission.waiting(0)] == [
        (t.id, WaitingReason.BEHIND_OTHERS) for t in tickets[crossing.MOST :]
    ]
    other = ask(admission, "silver", tenant=TenantId("silver"))
    assert other.stage is Stage.SENT
    arrives(engine, tickets[5])
    assert [t.id for t in tickets if t.stage is Stage.HELD] == [t.id for t in tickets[crossing.MOST + 1 :]]
    arrives(engine, tickets[5])
    admission.leave(tickets[0], 0, completed=False)
    assert [t.id for t in tickets if t.stage is Stage.HELD] == [t.id for t in tickets[crossing.MOST + 2 :]]
    begins(engine, tickets[1])
    assert tickets[-1].stage is Stage.SENT


def test_what_takes_long_to_cross_keeps_no_other_back() -> None:
    admission, _ = room()
    tickets = [ask(admission, f"gold-{i}") for i in range(crossing.MOST + 3)]
    admission.tick(crossing.PATIENCE - 0.1)
    assert tickets[-1].stage is Stage.HELD
    admission.tick(crossing.PATIENCE)
    assert tickets[-1].stage is Stage.SENT


def test_where_the_engine_does_not_say_what_has_arrived_all_go_on() -> None:
    admission, engine = room()
    engine.there = False
    tickets = [ask(admission, f"gold-{i}") for i in range(crossing.MOST + 3)]
    assert {t.stage for t in tickets} == {Stage.SENT}


def test_what_was_held_back_goes_on_when_the_plug_in_has_gone() -> None:
    admission, engine = room()
    tickets = [ask(admission, f"gold-{i}") for i in range(3 * crossing.MOST)]
    engine.there = False
    admission.tick(crossing.PATIENCE)
    assert {t.stage for t in tickets} == {Stage.SENT}


def test_requests_that_have_not_been_sent_do_not_become_late() -> None:
    admission, engine = room(ready=False)
    tickets = [ask(admission, f"gold-{i}") for i in range(crossing.MOST + 3)]
    admission.tick(10 * crossing.PATIENCE)
    admission.engine_told(READY, 20.0)
    assert len(engine.tickets()) == crossing.MOST
    assert tickets[-1].stage is Stage.HELD


def test_nothing_goes_on_while_the_engine_does_not_answer() -> None:
    admission, engine = room(ready=False)
    ticket = ask(admission, "a")
    assert (ticket.stage, engine.tickets()) == (Stage.QUEUED, [])
    assert [reason for _, reason in admission.waiting(0)] == [WaitingReason.ENGINE_UNAVAILABLE]
    admission.engine_told(READY, 1)
    assert [t.key for t in engine.tickets()] == ["a"]


def test_the_engine_hears_of_the_end_of_a_run_under_a_name_that_no_other_process_gives() -> None:
    admission, engine = room()
    ticket = ask(admission, "a")
    admission.leave(ticket, 1, completed=True)
    (ended,) = [message for message in engine.told if isinstance(message, channel.RunEnded)]
    assert ended.run == engine.tickets()[0].run
    assert ended.run.startswith(engine.instance)


def test_service_and_gate_are_the_engines() -> None:
    admission, engine = room()
    assert (admission.service, admission.gate) == ({}, None)
    report = PolicyReport(burst=2.0, slack=1.0, in_engine=5.0)
    engine.state = PlugInSnapshot(service={GOLD: 3.0}, unit="engine seconds", policy=report)
    assert (admission.service, admission.unit) == ({"gold": 3.0}, "engine seconds")
    assert admission.gate is not None
    assert (admission.gate.burst, admission.gate.slack, admission.gate.in_engine) == (2.0, 1.0, 5.0)


def test_bounds_count_sequences_and_a_request_larger_than_one_is_told_so() -> None:
    admission, _ = room(bound=4, queued_requests=3, running_requests=3)
    ask(admission, "a", sequences=2)
    with pytest.raises(RefusalError) as full:
        admission.books.check_room(GOLD, ApplicationId("ns/gold"), 2)
    assert full.value.refusal is Refusal.TENANT_QUEUE_FULL
    with pytest.raises(RefusalError) as other:
        admission.books.check_room(TenantId("silver"), ApplicationId("ns/silver"), 3)
    assert other.value.refusal is Refusal.QUEUE_FULL
    for tenant, sequences in ((GOLD, 4), (TenantId("silver"), 5)):
        with pytest.raises(RefusalError) as alone:
            admission.books.check_room(tenant, ApplicationId(f"ns/{tenant}"), sequences)
        assert alone.value.refusal is Refusal.UNSUPPORTED
    admission.books.check_room(GOLD, ApplicationId("ns/gold"), 1)


def test_the_engine_is_told_how_many_sequences_will_come() -> None:
    admission, engine = room()
    ask(admission, "a", prompts=2, sequences=6)
    assert [t.sequences for t in engine.tickets()] == [6]


def test_a_limit_of_running_requests_counts_sequences_and_never_starves_a_larger_one() -> None:
    admission, _ = room(running_requests=4)
    first, second, third = (ask(admission, name, sequences=2) for name in "abc")
    large = ask(admission, "d", sequences=9)
    assert [t.stage for t in (first, second, third, large)] == [Stage.SENT, Stage.SENT, Stage.HELD, Stage.HELD]
    for ticket in (first, second):
        admission.leave(ticket, 1, completed=True)
    assert (third.stage, large.stage) == (Stage.SENT, Stage.HELD)
    admission.leave(third, 2, completed=True)
    assert large.stage is Stage.SENT


def test_a_request_of_several_has_begun_with_its_first_sequence() -> None:
    admission, engine = room()
    ticket = ask(admission, "a", sequences=3)
    assert (admission.waits(ticket), admission.books.queued) == (True, 3)
    begins(engine, ticket)
    begins(engine, ticket)
    assert (admission.waits(ticket), admission.books.queued, admission.books.load[GOLD].running) == (False, 0, 3)
    assert hearing(ticket).events == ["admitted", "begun"]


@pytest.mark.parametrize("why", ["without a ticket", "connection ended", "policy failed", "messages dropped"])
def test_whether_a_request_waits_is_not_claimed_where_it_cannot_be_known(why: str) -> None:
    admission, engine = room()
    engine.there = why != "without a ticket"
    ticket = ask(admission, "a")
    match why:
        case "without a ticket":
            engine.there = True
        case "connection ended":
            engine.gaps += 1
        case "policy failed":
            engine.receive(encode(PlugInSnapshot(failures=1)))
        case "messages dropped":
            engine.receive(encode(PlugInSnapshot(dropped_out=3)))
    assert not admission.waits(ticket)


def test_a_first_snapshot_tells_of_no_loss() -> None:
    admission, engine = room()
    ticket = ask(admission, "a")
    engine.receive(encode(PlugInSnapshot()))
    assert admission.waits(ticket)


def test_an_aborted_request_is_counted_by_the_engine_after_it_is_over_and_once() -> None:
    admission, engine = room()
    ticket = ask(admission, "a", run="r", prompts=2, sequences=4)
    begins(engine, ticket)
    admission.leave(ticket, 1, completed=False)
    prompt = channel.SEQUENCES_PER_PROMPT
    for number in (0, 1, prompt, prompt, prompt + 1, prompt + 1):
        closes(engine, ticket, 10, sequence=number)
    assert hearing(ticket).counts == [(50, 10), (50, 20), (100, 30), (100, 40)]


def test_what_was_streamed_and_what_the_engine_says_are_not_added() -> None:
    admission, engine = room()
    ticket = ask(admission, "a", run="r")
    admission.counted(ticket, 50, 7, 0)
    closes(engine, ticket, 9, cached=40)
    assert (ticket.account.produced, cost(admission, ticket)) == (9, 9 * 10 + 45)
    admission.leave(ticket, 1, completed=True)
    assert (ticket.account.produced, cost(admission, ticket)) == (9, 9 * 10 + 45)


@pytest.mark.parametrize("told", [False, True], ids=["without a ticket", "another engine"])
def test_a_request_whose_end_is_never_told_is_counted_by_what_was_streamed(told: bool) -> None:
    admission, engine = room()
    engine.there = told
    ticket = ask(admission, "a", run="r")
    admission.counted(ticket, 50, 4, 0)
    admission.leave(ticket, 1, completed=False)
    engine.peer = "another"
    admission.tick(2)
    admission.tick(3)
    assert (ticket.account.produced, cost(admission, ticket)) == (4, 4 * 50 + 10)
    closes(engine, ticket, 9)
    assert ticket.account.produced == 4, "nobody waits any more for what it did"


def test_what_the_engine_tells_after_a_run_is_over_belongs_to_its_cost() -> None:
    admission, engine = room()
    ticket = ask(admission, "a")
    begins(engine, ticket)
    admission.leave(ticket, 1, completed=True)
    assert len(admission.books.runs) == 0
    assert ticket.run.cost == 0
    closes(engine, ticket, produced=10)
    assert ticket.run.cost == 50 * 10 + 55


def test_requests_whose_counts_are_waited_for_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MOST_WAITING", 3)
    admission, engine = room()
    tickets = [ask(admission, f"{number}") for number in range(10)]
    for ticket in tickets:
        admission.leave(ticket, 1, completed=False)
    for ticket in tickets:
        closes(engine, ticket, 10)
    assert [ticket.account.produced for ticket in tickets] == [0] * 7 + [10] * 3


def test_a_refused_wait_is_no_beginning() -> None:
    admission, _ = room()
    ticket = ask(admission, "a")
    admission.leave(ticket, 1, completed=False)
    assert hearing(ticket).events == ["admitted"]
    assert (admission.books.queued, admission.books.load[GOLD].running) == (0, 0)


STEP, TOKEN = 0.01, 0.001


def abandoned(admission: Inside, ticket: TrackedRequest, now: float) -> list[tuple[int, int]]:
    """Leaves before anything of its answer was seen. What is counted from then on, first at once."""
    admission.abandoned(ticket, now)
    if ticket.account.counted:
        ticket.observer.counted(ticket)
    admission.leave(ticket, now, completed=False)
    return hearing(ticket).counts


def away(admission: Inside, engine: Listening) -> None:
    """The plug-in has disconnected. The step time is as it last reported."""
    engine.there = False
    engine.gaps += 1
    engine.state = PlugInSnapshot(step_time=StepTime(STEP, TOKEN, 0.0))


@pytest.mark.parametrize(("after", "read"), [(0.0, 1), (0.02, 21), (0.049, 50), (60.0, 50)])
def test_what_is_abandoned_while_the_engine_cannot_say_is_estimated_by_its_steps(after: float, read: int) -> None:
    admission, engine = room()
    away(admission, engine)
    ticket = ask(admission, "a", run="r")
    assert abandoned(admission, ticket, after) == [(read, 1)]
    assert cost(admission, ticket) == read + 1


def test_an_answer_that_shows_nothing_before_its_end_is_estimated_as_a_whole() -> None:
    admission, engine = room()
    away(admission, engine)
    ticket = ask(admission, "a", run="r", sequences=2)
    ticket.asks = replace(ticket.asks, streamed=False)
    assert abandoned(admission, ticket, 60.0) == [(50, 80)]


@pytest.mark.parametrize("why", ["it is away afterwards", "its policy fails", "it is another", "it says nothing"])
def test_what_the_engine_could_say_and_does_not_is_estimated_after_all(why: str) -> None:
    admission, engine = room()
    ticket = ask(admission, "a", run="r")
    begins(engine, ticket)
    counted = abandoned(admission, ticket, 60.0)
    admission.tick(61.0)
    assert counted == []
    match why:
        case "it is away afterwards":
            engine.there = False
        case "its policy fails":
            engine.state = PlugInSnapshot(dismissed=True)
        case "it is another":
            engine.peer = "another"
    admission.tick(61.0 if why != "it says nothing" else 70.0)
    admission.tick(80.0)
    assert counted == [(50, 1)]
    assert cost(admission, ticket) == 51


def test_what_the_engine_has_not_begun_with_is_not_estimated() -> None:
    admission, engine = room()
    ticket = ask(admission, "a", run="r")
    counted = abandoned(admission, ticket, 60.0)
    engine.there = False
    admission.tick(80.0)
    assert counted == []


def test_the_newest_as_many_as_wait_by_the_engine_s_count_are_not_estimated() -> None:
    admission, engine = room()
    away(admission, engine)
    first, *others = [ask(admission, name, run="r") for name in "abc"]
    admission.engine_told(EngineView(ready=True, kv_tokens=100, block_size=10, longest=90, waiting=2), 1)
    assert [abandoned(admission, ticket, 2.0) for ticket in others] == [[], []]
    admission.engine_told(READY, 3)
    assert abandoned(admission, first, 4.0) == [(50, 1)]


def test_what_the_engine_refused_is_not_estimated() -> None:
    admission, engine = room()
    away(admission, engine)
    ticket = ask(admission, "a", run="r")
    admission.refused_by_engine(ticket, 1.0)
    admission.leave(ticket, 1.0, completed=False)
    admission.tick(60.0)
    assert (ticket.account.counted, cost(admission, ticket)) == (False, 0)


@pytest.mark.parametrize(
    ("produced", "read", "settled"), [(9, 50, (50, 9)), (0, 3, (3, 0)), (0, 0, (0, 0))], ids=["more", "less", "nothing"]
)
def test_an_estimate_is_settled_when_the_engine_says_what_it_was(
    produced: int, read: int, settled: tuple[int, int]
) -> None:
    admission, engine = room()
    away(admission, engine)
    counted = abandoned(admission, ask(admission, "a", run="r"), 60.0)
    engine.there = True
    engine.hear(channel.Closed("a", 0, False, 50, 0, produced, 0, 1.0, read))
    admission.tick(80.0)
    assert counted == [(50, 1), settled]


def test_a_prompt_that_was_read_in_part_is_counted_as_the_engine_says() -> None:
    admission, engine = room()
    ticket = ask(admission, "a", run="r")
    begins(engine, ticket)
    counted = abandoned(admission, ticket, 1.0)
    closes(engine, ticket, 0, read=20)
    assert counted == [(20, 0)]


def test_tickets_of_what_came_while_the_plug_in_was_away_are_sent_late() -> None:
    admission, engine = room()
    engine.there = False
    ask(admission, "a")
    engine.told.clear()
    admission.tick(1.0)
    assert engine.tickets() == []
    engine.there = True
    admission.tick(2.0)
    admission.tick(3.0)
    assert [t.key for t in engine.tickets()] == ["a"]


@given(st.lists(st.tuples(st.sampled_from(["ask", "begin", "count", "leave"]), st.integers(0, 5)), max_size=40))
@examples(200)
def test_the_books_hold_what_is_there(events: list[tuple[str, int]]) -> None:
    admission, engine = room(running_requests=3)
    tickets: dict[int, TrackedRequest] = {}
    for number, (event, i) in enumerate(events):
        ticket = tickets.get(i)
        if event == "ask" and ticket is None:
            tickets[i] = ask(admission, f"{number}", sequences=1 + i % 2)
        elif ticket is None:
            continue
        elif event == "begin" and ticket.stage in {Stage.SENT, Stage.STARTED}:
            begins(engine, ticket)
        elif event == "count" and ticket.stage in {Stage.SENT, Stage.STARTED}:
            admission.counted(ticket, 50, ticket.account.produced + 1, 0)
        elif event == "leave":
            admission.leave(tickets.pop(i), 0, completed=bool(ticket.account.produced))
        running = sum(t.asks.sequences for t in tickets.values() if t.stage is Stage.STARTED)
        waiting = sum(t.asks.sequences for t in tickets.values()) - running
        load = admission.books.load[GOLD]
        assert (load.running, load.queued, admission.books.queued) == (running, waiting, waiting)
        assert sum(t.asks.sequences for t in tickets.values() if t.stage in {Stage.SENT, Stage.STARTED}) <= 3
    for ticket in list(tickets.values()):
        admission.leave(ticket, 0, completed=False)
    assert (
        admission.books.queued,
        admission.books.load[GOLD].running,
        len(admission.books.runs),
        admission.held,
    ) == (0, 0, 0, 0)
