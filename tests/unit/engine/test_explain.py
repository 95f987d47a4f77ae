"""What people are told of the engine's queue."""

from hypothesis import given
from hypothesis import strategies as st

from justitia_channel.messages import Configure, Queue, Ticket, WaitingRequest
from justitia_channel.wire import decode, encode
from justitia_engine.explain import QueueView, explain
from justitia_engine.host import EngineHost, OpenSequence, SequenceName
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.model import Progress, Step
from justitia_scheduling.policies.fcfs import FCFS
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from justitia_vocabulary.waiting import WaitingReason
from support.examples import examples

FULL = QueueView(WaitingReason.NO_KV_SPACE, [])


def name(key: str, number: int = 0) -> SequenceName:
    return SequenceName(RequestId(f"{key}#{number}"), key, number)


def host(policy: str = "vtc") -> EngineHost:
    made = EngineHost(FCFS(KVTokenTimeCost()), 1000, 0.0, lambda sequence: 0)
    made.configure(Configure(1, policy, "kv-token-time", {"gold": 1.0, "silver": 1.0}), 0.0)
    return made


def asks(on: EngineHost, key: str, tenant: str | None = "gold", sequences: int = 1, at: float = 0.0) -> None:
    if tenant is not None:
        on.ticket(Ticket(key, TenantId(tenant), ApplicationId("ns/app"), RunId(f"run-{key}"), sequences), at)
    for number in range(sequences):
        on.queued(name(key, number), 10, at)


def rows(on: EngineHost | None, view: QueueView = FULL, limit: int = 100) -> list[WaitingRequest]:
    return explain(on, view, limit, 5.0).requests


def test_a_row_tells_whose_the_request_is_and_by_what_it_is_ordered() -> None:
    on = host()
    asks(on, "a", at=2.0)
    assert rows(on) == [
        WaitingRequest(
            "a",
            WaitingReason.NO_KV_SPACE,
            10,
            rank=1,
            tenant=TenantId("gold"),
            application=ApplicationId("ns/app"),
            run="run-a",
            waiting_seconds=3.0,
            order_key={"tenantCounter": 0.0},
        )
    ]


def test_what_the_engine_says_stands_in_the_way_of_the_head_alone() -> None:
    on = host()
    for key in "abc":
        asks(on, key)
    assert [row.reason for row in rows(on)] == ["NoKVSpace", "BehindOthers", "BehindOthers"]
    busy = rows(on, QueueView(WaitingReason.ENGINE_BUSY, []))
    assert [row.reason for row in busy] == ["EngineBusy", "BehindOthers", "BehindOthers"]


def test_a_tenant_that_is_ahead_is_gated() -> None:
    on = host("tiered-justitia")
    on.policy.set_capacity(10, 0.0)
    asks(on, "served")
    asks(on, "gold")
    asks(on, "silver", "silver")
    on.admitted(name("served").id, 0, 1.0)
    on.policy.stepped(Step([Progress(name("served").id, 10, 50_000)]), 2.0)
    by_key = {row.key: row for row in rows(on)}
    assert by_key["gold"].reason == "TenantGated"
    assert (by_key["silver"].rank, by_key["silver"].reason) == (1, "NoKVSpace")
    assert by_key["gold"].order_key["gated"] == 1


def test_a_request_of_several_sequences_is_one_row_until_the_last_is_admitted() -> None:
    on = host()
    asks(on, "a", sequences=3)
    asks(on, "b")
    on.admitted(name("a", 0).id, 0, 1.0)
    queue = explain(on, FULL, 100, 5.0)
    assert [(row.key, row.sequences, row.rank) for row in queue.requests] == [("a", 2, 1), ("b", 1, 2)]
    assert queue.waiting == 2
    on.admitted(name("a", 1).id, 0, 1.0)
    on.admitted(name("a", 2).id, 0, 1.0)
    assert explain(on, FULL, 100, 5.0).waiting == 1


def test_a_request_without_a_ticket_is_seen_as_nobodys() -> None:
    on = host()
    asks(on, "a", tenant=None)
    (row,) = rows(on)
    assert (row.key, row.tenant, row.application) == ("a", "", "")


def test_what_is_beyond_the_limit_is_counted() -> None:
    on = host()
    for number in range(20):
        asks(on, f"{number}")
    queue = explain(on, FULL, 5, 5.0)
    assert ([row.rank for row in queue.requests], queue.waiting) == ([1, 2, 3, 4, 5], 20)


def test_what_is_being_prepared_has_no_rank() -> None:
    on = host()
    asks(on, "a")
    view = QueueView(WaitingReason.ENGINE_BUSY, [OpenSequence(name("p"), 7, 0, False)])
    queue = explain(on, view, 100, 5.0)
    assert [(row.key, row.rank, row.reason) for row in queue.requests] == [
        ("a", 1, "EngineBusy"),
        ("p", None, "BeingPrepared"),
    ]
    assert queue.waiting == 2


def test_without_a_policy_the_queue_is_by_arrival_and_without_keys() -> None:
    waiting = [OpenSequence(name(key), 10, 0, False) for key in "aab"]
    queue = explain(None, QueueView(WaitingReason.NO_KV_SPACE, [], waiting, more=4), 100, 5.0)
    assert [(row.key, row.rank, row.sequences, row.reason) for row in queue.requests] == [
        ("a", 1, 2, "NoKVSpace"),
        ("b", 2, 1, "BehindOthers"),
    ]
    assert queue.waiting == 6
    assert queue.requests[0].order_key == {}


def test_a_thousand_rows_fit_into_a_message() -> None:
    on = host("tiered-justitia")
    for number in range(1500):
        key = f"{number:032x}"
        on.ticket(Ticket(key, TenantId("t" * 63), ApplicationId("n" * 127), RunId("r" * 60 + key)), 0.0)
        on.queued(name(key), 10, 0.0)
    queue = explain(on, FULL, 1000, 1.0)
    told = decode(encode(queue).rstrip())
    assert isinstance(told, Queue)
    assert len(told.requests) == 1000


@given(st.lists(st.tuples(st.sampled_from(["ask", "admit", "preempt", "late", "close"]), st.integers(0, 5))))
@examples(200)
def test_the_requests_that_wait_are_counted_whatever_happens(events: list[tuple[str, int]]) -> None:
    on = host()
    for event, number in events:
        key, first = f"k{number}", name(f"k{number}").id
        known, running = first in on.policy.requests, first in on.policy.running
        match event:
            case "ask" if not known:
                asks(on, key, tenant=None, sequences=1 + number % 2)
            case "admit" if known and not running:
                on.admitted(first, 0, 1.0)
            case "preempt" if running:
                on.preempted(first, 1.0)
            case "late" if known:
                on.ticket(Ticket(key, TenantId("gold"), ApplicationId("ns/app"), RunId(key), 1 + number % 2), 1.0)
            case "close" if known:
                for sequence in range(1 + number % 2):
                    on.closed(name(key, sequence).id, 3, True, 2.0)
        waiting = {on.name(request.id).key for request in on.policy.waiting()}
        assert on.waiting_requests == len(waiting) == explain(on, FULL, 100, 3.0).waiting
