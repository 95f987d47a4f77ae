"""Bounds and books where the order is the engine's."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia_api.config import ApplicationConfig, PoolConfig, TenantConfig
from justitia_api.status import WaitingReason
from justitia_api.wire import Refusal
from justitia_scheduling import channel
from justitia_scheduling.model import RequestId, TenantId
from justitia_sidecar.admission import EngineView, Stage, Ticket
from justitia_sidecar.engine_admission import EngineAdmission
from justitia_sidecar.engine_channel import EngineChannel
from justitia_sidecar.recognition import application_id
from justitia_sidecar.refusals import RefusalError

GOLD = TenantId("gold")
READY = EngineView(ready=True, kv_tokens=100, block_size=10, longest=90)


class Listening(EngineChannel):
    """Keeps what the engine would be told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[channel.Message] = []

    def send(self, message: channel.Message) -> None:
        self.told.append(message)

    def tickets(self) -> list[channel.Ticket]:
        return [message for message in self.told if isinstance(message, channel.Ticket)]


def room(ready: bool = True, bound: int = 1000, **limits: Any) -> tuple[EngineAdmission, Listening]:
    engine = Listening()
    config = PoolConfig(
        generation=1,
        namespace="ns",
        name="pool",
        model="m",
        queue={"maximum_requests": bound},
        tenants=(TenantConfig(name="gold", weight=1, limits=limits),),
    )
    admission = EngineAdmission(config, engine, lambda: 0.0)
    if ready:
        admission.engine_told(READY, 0)
    return admission, engine


def ask(admission: EngineAdmission, name: str, run: str | None = None) -> Ticket:
    application = ApplicationConfig(namespace="ns", name="gold", tenant="gold")
    ticket = Ticket(
        id=RequestId(name),
        tenant=GOLD,
        application=application_id(application),
        run=admission.runs.enter(GOLD, application, run, 0),
        prompt_tokens=50,
        prompt_exact=True,
        max_tokens=40,
        fixed_output=False,
        streamed=True,
        arrival=0.0,
        on_admitted=lambda: None,
    )
    admission.enter(ticket, 0)
    admission.pump(0)
    return ticket


def begins(engine: Listening, ticket: Ticket) -> None:
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
        admission.check_room(GOLD)
    assert refused.value.refusal is Refusal.QUEUE_FULL
    begins(engine, first)
    admission.check_room(GOLD)
    assert (admission.queued, admission.load[GOLD].queued, admission.load[GOLD].running) == (1, 1, 1)


def test_a_tenant_at_its_limit_of_running_requests_keeps_the_others_here() -> None:
    admission, engine = room(running_requests=2)
    first, second, third = (ask(admission, name) for name in "abc")
    assert [t.key for t in engine.tickets()] == ["a", "b"]
    assert [(t.id, reason) for t, reason in admission.waiting(0)] == [("c", WaitingReason.TENANT_LIMIT)]
    begins(engine, first)
    begins(engine, second)
    admission.leave(first, 1, completed=True)
    assert third.stage is Stage.SENT


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
    engine.state = {"service": {"gold": 3.0}, "unit": "engine seconds", "burst": 2.0, "inEngine": 5.0}
    assert (admission.service, admission.unit) == ({"gold": 3.0}, "engine seconds")
    assert admission.gate is not None
    assert (admission.gate.burst, admission.gate.in_engine) == (2.0, 5.0)


@given(st.lists(st.tuples(st.sampled_from(["ask", "begin", "count", "leave"]), st.integers(0, 5)), max_size=40))
@settings(max_examples=200, deadline=None)
def test_the_books_hold_what_is_there(events: list[tuple[str, int]]) -> None:
    admission, engine = room(running_requests=3)
    tickets: dict[int, Ticket] = {}
    for number, (event, i) in enumerate(events):
        ticket = tickets.get(i)
        if event == "ask" and ticket is None:
            tickets[i] = ask(admission, f"{number}")
        elif ticket is None:
            continue
        elif event == "begin" and ticket.stage in {Stage.SENT, Stage.STARTED}:
            begins(engine, ticket)
        elif event == "count" and ticket.stage in {Stage.SENT, Stage.STARTED}:
            admission.counted(ticket, 50, ticket.produced + 1, 0)
        elif event == "leave":
            admission.leave(tickets.pop(i), 0, completed=bool(ticket.produced))
        running = sum(t.stage is Stage.STARTED for t in tickets.values())
        load = admission.load[GOLD]
        assert (load.running, load.queued, admission.queued) == (running, *[len(tickets) - running] * 2)
        assert sum(t.stage in {Stage.SENT, Stage.STARTED} for t in tickets.values()) <= 3
    for ticket in list(tickets.values()):
        admission.leave(ticket, 0, completed=False)
    assert (admission.queued, admission.load[GOLD].running, len(admission.runs), admission.reserved) == (0, 0, 0, 0)
