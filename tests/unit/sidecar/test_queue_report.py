"""Rows of the queue: what the engine tells together with what the sidecar knows."""

from typing import Any

from justitia_api.config import ApplicationConfig, PoolConfig, TenantConfig
from justitia_channel.messages import Queue, WaitingRequest
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import WeightedTokens
from justitia_scheduling.core.handover import LEAST
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.in_front import InFront
from justitia_sidecar.admission.inside import Inside
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.view import EngineView
from justitia_sidecar.pool.sharing import Sharing
from justitia_sidecar.report.queue import waiting_here, waiting_with_engine
from justitia_vocabulary.units import TenantId
from justitia_vocabulary.waiting import WaitingReason
from support.tracked import tracked_request

READY = EngineView(ready=True, kv_tokens=100, block_size=10, longest=90)
CONFIG = PoolConfig(
    generation=1, namespace="ns", name="pool", model="m", tenants=(TenantConfig(name="gold", weight=1),)
)
APPLICATION = ApplicationConfig(namespace="ns", name="app", tenant="gold")


def enter(admission: Admission, name: str, prompt: int = 50) -> TrackedRequest:
    run = admission.books.runs.enter(TenantId("gold"), APPLICATION, None, 0)
    ticket = tracked_request(name, run, prompt=prompt, arrival=1.0)
    admission.enter(ticket, 1.0)
    admission.pump(1.0)
    return ticket


def engine_admission(ready: bool = True, **limits: Any) -> Inside:
    tenants = (TenantConfig(name="gold", weight=1, limits=limits),)
    channel = EngineChannel()
    admission = Inside(CONFIG.model_copy(update={"tenants": tenants}), channel, Sharing(channel), lambda: 0.0)
    if ready:
        admission.engine_told(READY, 0.0)
    return admission


def told(key: str, rank: int | None = 1, **more: Any) -> WaitingRequest:
    known: dict[str, Any] = {"tenant": "gold", "application": "ns/app", "order_key": {"tag": 5.0}, "preemptions": 2}
    return WaitingRequest(key, WaitingReason.NO_KV_SPACE, 7, rank=rank, **known | more)


def brief(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["request"], row["rank"], row["reason"].value) for row in rows]


def test_what_the_engine_has_is_told_with_what_the_sidecar_knows_of_it() -> None:
    admission = engine_admission()
    ticket = enter(admission, "a")
    waiting, (row,) = waiting_with_engine(admission, Queue(1, [told("a", sequences=3)]), 4.0)
    assert waiting == 1
    assert row == {
        "rank": 1,
        "order_key": {"tag": 5.0},
        "request": "a",
        "tenant": "gold",
        "application": "ns/app",
        "run": ticket.run.id,
        "run_name": None,
        "sequences": 3,
        "preemptions": 2,
        "waiting_seconds": 3.0,
        "prompt_tokens": 7,
        "expected_tokens": None,
        "reason": "NoKVSpace",
    }


def test_what_the_engine_has_not_told_is_on_its_way_and_what_it_was_not_sent_waits_here() -> None:
    admission = engine_admission(running_requests=2)
    for name in "abc":
        enter(admission, name)
    waiting, rows = waiting_with_engine(admission, Queue(1, [told("a")]), 4.0)
    assert brief(rows) == [("a", 1, "NoKVSpace"), ("b", None, "NotTold"), ("c", None, "TenantLimit")]
    assert waiting == admission.books.queued == 3


def test_a_request_without_a_ticket_is_seen_as_nobodys() -> None:
    admission = engine_admission()
    enter(admission, "late")
    nobodys = [told(key, rank, tenant="", application="", waiting_seconds=2.5) for rank, key in ((1, "late"), (2, "x"))]
    waiting, rows = waiting_with_engine(admission, Queue(2, nobodys), 4.0)
    assert [(row["tenant"], row["application"], row["waiting_seconds"]) for row in rows] == [
        ("", "", 3.0),
        ("", "", 2.5),
    ]
    assert waiting == 2


def test_without_a_policy_the_sidecar_knows_whose_it_is() -> None:
    admission = engine_admission()
    enter(admission, "a")
    row = WaitingRequest("a", WaitingReason.ENGINE_BUSY, 7, rank=1)
    _, (seen,) = waiting_with_engine(admission, Queue(1, [row]), 4.0)
    assert (seen["tenant"], seen["order_key"], seen["preemptions"]) == ("gold", {}, 0)


def test_a_preempted_request_waits_again_and_is_counted() -> None:
    admission = engine_admission()
    admission.counted(enter(admission, "a"), 50, 1, 2.0)
    waiting, rows = waiting_with_engine(admission, Queue(1, [told("a")]), 4.0)
    assert (waiting, admission.books.queued, len(rows)) == (1, 0, 1)


def test_where_more_wait_in_the_engine_than_are_listed_all_are_counted() -> None:
    admission = engine_admission(running_requests=3)
    for name in "abcd":
        enter(admission, name)
    waiting, rows = waiting_with_engine(admission, Queue(3, [told("a")]), 4.0)
    assert waiting == 4
    assert brief(rows) == [("a", 1, "NoKVSpace"), ("d", None, "TenantLimit")]


def test_while_the_engine_does_not_answer_nothing_has_a_rank() -> None:
    admission = engine_admission(ready=False)
    enter(admission, "a")
    waiting, rows = waiting_with_engine(admission, Queue(0, []), 4.0)
    assert (waiting, brief(rows)) == (1, [("a", None, "EngineUnavailable")])


def test_in_front_of_the_engine_the_sidecars_policy_gives_rank_and_key() -> None:
    admission = InFront(CONFIG, build_policy("sjf", WeightedTokens()))
    admission.engine_told(READY, 0.0)
    for name in [*map(str, range(LEAST)), "b", "c"]:
        enter(admission, name)
    rows = list(waiting_here(admission, 4.0))
    assert [(row["request"], row["rank"], row["order_key"]) for row in rows] == [
        ("b", 1, {"fresh": 1, "predictedOutput": 100.0}),
        ("c", 2, {"fresh": 1, "predictedOutput": 100.0}),
    ]
