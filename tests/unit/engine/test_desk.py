"""Between scheduler and policy, without an engine: idle, in a step, and when something raises."""

import itertools
import logging
import random
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from justitia_channel.messages import (
    VERSION,
    About,
    AskQueue,
    Closed,
    Configure,
    Hello,
    Message,
    PlugInSnapshot,
    Queue,
    RunEnded,
    Ticket,
)
from justitia_channel.wire import Lines, decode, encode
from justitia_engine import desk as desk_module
from justitia_engine.desk import IDLE_AFTER, MOST_AT_ONCE, SNAPSHOT_EVERY, Desk
from justitia_engine.explain import QueueView
from justitia_engine.host import EngineHost, OpenSequence, SequenceName
from justitia_engine.link import MOST, Link
from justitia_engine.untold import Reading, StepDone
from justitia_scheduling.policies.registry import POLICIES
from justitia_vocabulary.policies import PolicyName
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from justitia_vocabulary.waiting import WaitingReason
from support.serving import eventually

GOLD = TenantId("gold")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Office:
    """A desk with a link that is not connected: what is told is put into its inbox, what it says is in its outbox."""

    def __init__(self, path: str = "") -> None:
        self.link = Link(path, About(), lambda problem: None)
        self.in_step = False
        self.open: list[OpenSequence] = []
        self.output: dict[RequestId, int] = {}
        self.desk = Desk(
            self.link,
            1000,
            lambda: self.open,
            produced=lambda sequence: self.output[sequence],
            in_step=lambda: self.in_step,
            view=lambda limit: QueueView(WaitingReason.ENGINE_BUSY, []),
            log=logging.getLogger("desk"),
        )

    def tell(self, *messages: Message) -> None:
        self.link.inbox.extend(messages)

    def said(self, kind: type[Message]) -> list[Message]:
        return [message for message in self.link.outbox if isinstance(message, kind)]

    @property
    def host(self) -> EngineHost:
        assert self.desk.host is not None
        return self.desk.host


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(Desk, "now", staticmethod(made))
    return made


@pytest.fixture
def office(clock: Clock) -> Office:
    return Office()


def configuration(policy: str = "vtc", generation: int = 1, **knobs: float) -> Configure:
    return Configure(generation, policy, "kv-token-time", {"gold": 2.0}, knobs)


def ticket(key: str) -> Ticket:
    return Ticket(key, GOLD, ApplicationId("ns/app"), RunId(f"run-{key}"))


def name(key: str) -> SequenceName:
    return SequenceName(RequestId(f"{key}#0"), key, 0)


def test_an_idle_engine_is_configured_shown_and_asked(office: Office) -> None:
    office.tell(configuration(), ticket("a"), AskQueue(5))
    office.desk.between_steps()
    assert type(office.host.policy) is POLICIES[PolicyName.VTC]
    assert office.said(Queue) == [Queue(0, [])]
    (snapshot,) = office.said(PlugInSnapshot)
    assert isinstance(snapshot, PlugInSnapshot)
    assert snapshot.generation == 1


def test_an_idle_engine_is_shown_about_once_a_second_and_no_more(office: Office, clock: Clock) -> None:
    for _ in range(100):
        office.desk.between_steps()
        clock.now += SNAPSHOT_EVERY / 20
    assert len(office.said(PlugInSnapshot)) == 5


def test_while_a_step_is_under_way_or_has_just_heard_only_the_engine_hears(office: Office, clock: Clock) -> None:
    office.desk.settle([])
    office.tell(configuration())
    office.desk.between_steps()
    assert office.link.inbox
    clock.now += 2 * IDLE_AFTER
    office.in_step = True
    office.desk.between_steps()
    assert office.link.inbox
    office.in_step = False
    office.desk.between_steps()
    assert not office.link.inbox


def test_the_links_thread_never_waits_for_the_engine_nor_changes_what_a_step_has_begun_with(office: Office) -> None:
    office.tell(configuration())
    with office.desk.lock:
        other = threading.Thread(target=office.desk.between_steps)
        other.start()
        other.join(10)
        assert not other.is_alive()
        assert office.link.inbox
    office.desk.between_steps()
    assert not office.link.inbox


def test_a_burst_keeps_a_step_that_would_begin_waiting_for_a_few_messages_only(office: Office) -> None:
    office.tell(*(ticket(str(i)) for i in range(MOST)))
    office.desk.between_steps()
    assert len(office.link.inbox) == MOST - MOST_AT_ONCE
    office.desk.settle([(name("7"), 10)])
    assert not office.link.inbox
    assert office.host.policy.requests[name("7").id].tenant == GOLD
    assert office.desk.failures == 0


def test_the_end_of_a_run_never_seen_is_nothing(office: Office) -> None:
    office.tell(RunEnded(RunId("never seen")))
    office.desk.between_steps()
    assert office.desk.failures == 0
    assert not office.host.policy.runs


def test_another_sidecar_ends_the_runs_of_the_one_before_and_the_same_one_does_not(office: Office) -> None:
    office.tell(Hello(VERSION, "one"), ticket("a"))
    office.desk.settle([(name("a"), 10)])
    office.desk.closed(name("a").id, 0, False)
    office.tell(Hello(VERSION, "one"))
    office.desk.settle([])
    assert office.host.policy.runs
    office.tell(Hello(VERSION, "two"))
    office.desk.settle([])
    assert not office.host.policy.runs


def test_a_configuration_that_is_not_valid_leaves_the_one_in_effect(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    office.tell(configuration(), configuration("lifo", generation=2))
    office.desk.settle([])
    assert type(office.host.policy) is POLICIES[PolicyName.VTC]
    assert office.desk.snapshot().generation == 1
    assert "configuration 2 is not put into effect: unknown policy 'lifo'" in caplog.text


def test_a_knob_of_a_later_release_is_logged_once(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    office.tell(
        configuration(warmth=1.0), configuration(generation=2, warmth=2.0), configuration(generation=3, haste=1.0)
    )
    office.desk.settle([])
    assert office.desk.snapshot().generation == 3
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "no policy has these knobs, which are passed over: warmth",
        "no policy has these knobs, which are passed over: haste",
    ]


def test_a_policy_is_logged_when_it_is_put_in_effect_and_when_it_is_dismissed(
    office: Office, clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    office.tell(configuration(), configuration(generation=2))
    office.desk.settle([])
    assert caplog.messages == ["policy vtc is in effect by configuration 1, tenants are charged KV token-time"]
    fail(monkeypatch, office.host.policy, "head")
    assert office.desk.head() is None
    assert caplog.messages[1:] == [
        "the policy failed and is dismissed, requests are served as they arrived: RuntimeError('on purpose')"
    ]
    office.open = [OpenSequence(name("a"), 10, 3, True), OpenSequence(name("b"), 10, 0, False)]
    office.tell(configuration(generation=3))
    clock.now += 2 * IDLE_AFTER
    office.desk.between_steps()
    assert caplog.messages[2:] == ["policy vtc is in effect by configuration 3, tenants are charged KV token-time"]
    assert office.desk.head() == name("b").id
    assert list(office.host.policy.running) == [name("a").id]


def fail(monkeypatch: pytest.MonkeyPatch, of: object, what: str) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(of, what, failing)


def test_what_people_ask_cannot_stop_the_engine(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, office.host, "snapshot")
    office.tell(AskQueue(5))
    office.desk.settle([])
    assert office.desk.failures == 1
    assert "on purpose" in office.desk.snapshot().failure


def step(desk: Desk, produced: dict[RequestId, int]) -> None:
    """Each that runs makes a token."""
    with desk.lock:
        for each in produced:
            produced[each] += 1
        readings = tuple(Reading(s, 10, 0) for s, n in produced.items() if n == 1)
        desk.stepped(StepDone(len(produced), 10 * len(produced), 1000, readings, 0.01))
        desk.step_is_over()


def test_policies_change_under_the_hands_of_a_working_engine_and_nothing_is_lost_or_charged_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One thread works as the scheduler does, another one puts policy after policy in effect between its steps."""
    monkeypatch.setattr(desk_module, "IDLE_AFTER", 0.0)
    office, over, rng = Office(), threading.Event(), random.Random(1)
    changes = 0
    office.tell(configuration())
    office.desk.settle([])

    def change() -> None:
        nonlocal changes
        policies = ["fcfs", "vtc", "justitia", "tiered-justitia", "uniboost", "srpt", "sjf"]
        while not over.wait(0.0005):
            office.tell(configuration(policies[changes % len(policies)], changes))
            office.desk.between_steps()
            changes += 1

    def work(desk: Desk) -> list[Closed]:
        produced = office.output
        for i in itertools.takewhile(lambda i: i < 300 or changes < 50, range(100_000)):
            office.tell(ticket(str(i)))
            with desk.lock:
                desk.settle([(name(str(i)), 10)])
                head = desk.head()
                assert head is not None
                assert head == desk.head()
                desk.admitted(head, 0)
                produced[head] = 0
            step(desk, produced)
            if rng.random() < 0.3 and (victim := desk.victim()) is not None:
                with desk.lock:
                    desk.preempted(victim)
                    again = desk.head()
                    assert again is not None
                    desk.admitted(again, 0)
                    produced.setdefault(again, 0)
                    if again != victim:
                        desk.closed(victim, produced.pop(victim), False)
            with desk.lock:
                for sequence in [s for s, n in produced.items() if n >= 5]:
                    desk.closed(sequence, produced.pop(sequence), True)
        for sequence, n in produced.items():
            desk.closed(sequence, n, True)
        return [message for message in office.link.outbox if isinstance(message, Closed)]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        closed = work(office.desk)
    finally:
        over.set()
        thread.join()
    assert office.desk.failures == 0, office.desk.failure
    assert len({c.key for c in closed}) == len(closed) >= 300
    assert all(c.charge == 10 * c.produced + c.produced * (c.produced + 1) / 2 for c in closed)
    assert not office.host.policy.requests


def test_an_idle_engine_answers_over_a_real_socket(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        office = Office(str(path))
        office.link.start(office.desk.between_steps)
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(10)
            peer.sendall(b"".join(map(encode, [Hello(VERSION, "one"), configuration("uniboost", 7), AskQueue(3)])))
            heard, lines = list[Message](), Lines()

            def so_far() -> list[Message]:
                heard.extend(decode(line) for line in lines.feed(peer.recv(1 << 16)))
                return heard

            eventually("the queue is told", lambda: Queue(0, []) in so_far())
            told = eventually("a snapshot", in_effect(so_far, 7))
            assert told.policy.gamma is not None
        office.link.close()


def in_effect(so_far: Callable[[], list[Message]], generation: int) -> Callable[[], PlugInSnapshot | None]:
    """The first snapshot in which that configuration is in effect."""

    def found() -> PlugInSnapshot | None:
        snapshots = [message for message in so_far() if isinstance(message, PlugInSnapshot)]
        return next((s for s in snapshots if s.generation == generation), None)

    return found
