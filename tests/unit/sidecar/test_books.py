"""The books of an admission: what is here, what waits, what the engine has; and who makes room in a full queue."""

from typing import Any

import pytest

from justitia_api.config import ApplicationConfig, PoolConfig, QueueConfig, TenantConfig
from justitia_api.wire import Refusal
from justitia_sidecar.admission.books import AT_A_TIME, Books
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import RunTable, TrackedRun
from justitia_sidecar.admission.stages import Stage
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import ApplicationId, Seconds, TenantId
from support.tracked import hearing, tracked_request

GOLD, SILVER = TenantId("gold"), TenantId("silver")


def config(maximum: int = 100, **tenants: dict[str, Any]) -> PoolConfig:
    given = tenants or {"gold": {}, "silver": {}}
    return PoolConfig(
        generation=1,
        namespace="ns",
        name="pool",
        model="m",
        queue=QueueConfig(maximum_requests=maximum),
        tenants=tuple(TenantConfig(name=name, **({"weight": 1} | fields)) for name, fields in given.items()),
    )


class Desk:
    """Books, and the requests that come. `unmoved` are those that do not wait any more, though they have not begun."""

    def __init__(self, given: PoolConfig | None = None) -> None:
        self.over: list[TrackedRun] = []
        self.unmoved: set[str] = set()
        self.stuck: set[TenantId] = set()

        def quiet(run: TrackedRun, now: Seconds) -> None:
            pass

        runs = RunTable(quiet, quiet)
        runs.on_ended = self.over.append
        self.books = Books(
            given or config(),
            runs,
            waits=lambda request: request.id not in self.unmoved,
            held_up=lambda tenant: tenant in self.stuck,
        )

    def enter(
        self,
        name: str,
        tenant: TenantId = GOLD,
        *,
        run: str | None = None,
        sequences: int = 1,
        arrival: float = 0.0,
        application: str | None = None,
    ) -> TrackedRequest:
        of = ApplicationConfig(namespace="ns", name=application or tenant, tenant=tenant)
        tracked = self.books.runs.enter(tenant, of, run, arrival)
        request = tracked_request(name, tracked, sequences=sequences, arrival=arrival)
        self.books.enter(request)
        return request

    def release(self, tenant: TenantId = GOLD) -> list[str]:
        return [request.id for request in self.books.release(tenant)]

    def send(self, *requests: TrackedRequest) -> None:
        for request in requests:
            self.books.send(request, 1.0)

    def leave(self, request: TrackedRequest, *, completed: bool = True, ends_run: bool = False) -> None:
        self.books.leave(request, 2.0, completed=completed, ends_run=ends_run)


def refusal(books: Books, tenant: TenantId, sequences: int = 1) -> tuple[Refusal, str] | None:
    try:
        books.check_room(tenant, ApplicationId(f"ns/{tenant}"), sequences)
    except RefusalError as refused:
        return refused.refusal, refused.message
    return None


def test_what_the_engine_has_is_counted_until_it_leaves() -> None:
    desk = Desk()
    assert (desk.books.in_engine, desk.books.resident) == (0, 0)
    first, second, third = (desk.enter(name) for name in ("a", "b", "c"))
    desk.release()
    desk.send(first, second)
    assert (desk.books.in_engine, desk.books.resident) == (2, 100)
    desk.books.hold(first, 7)
    desk.books.hold(first, 3)
    assert (first.placement.resident, second.placement.resident, desk.books.resident) == (60, 50, 110)
    desk.leave(first)
    assert (desk.books.in_engine, desk.books.resident) == (1, 50)
    desk.leave(third)
    assert (desk.books.in_engine, desk.books.resident) == (1, 50)
    desk.leave(second)
    assert (desk.books.in_engine, desk.books.resident) == (0, 0)


def test_a_tenants_sequences_wait_run_and_are_gone() -> None:
    desk = Desk()
    first, second = desk.enter("a", sequences=3), desk.enter("b", sequences=2)
    load = desk.books.load[GOLD]
    assert (desk.books.queued, load.queued, load.running, load.released) == (5, 5, 0, 0)
    assert desk.release() == ["a", "b"]
    assert (desk.books.queued, load.queued, load.running, load.released) == (5, 5, 0, 5)
    desk.books.hold_back(second)
    assert (load.released, list(load.held)) == (3, [second])
    desk.send(first)
    desk.books.begin(first)
    assert (desk.books.queued, load.queued, load.running, load.released) == (2, 2, 3, 3)
    desk.leave(first)
    desk.leave(second)
    assert (desk.books.queued, load.queued, load.running, load.released) == (0, 0, 0, 0)
    assert not load.held
    assert not desk.books.requests


def test_the_sequences_of_all_requests_that_have_begun_run() -> None:
    desk = Desk()
    both = [desk.enter("a", sequences=3), desk.enter("b", sequences=2)]
    desk.release()
    desk.send(*both)
    for request in both:
        desk.books.begin(request)
    load = desk.books.load[GOLD]
    assert (load.queued, load.running) == (0, 5)
    desk.leave(both[0])
    assert load.running == 2


def test_what_is_held_back_again_waits_in_order_of_arrival() -> None:
    desk = Desk()
    first, second = desk.enter("first", arrival=1.0), desk.enter("second", arrival=2.0)
    desk.release()
    desk.books.hold_back(second)
    desk.books.hold_back(first)
    assert (first.stage, second.stage) == (Stage.HELD, Stage.HELD)
    assert desk.release() == ["first", "second"]


def test_a_limit_of_running_requests_holds_back_what_is_beyond_it() -> None:
    desk = Desk(config(gold={"limits": {"runningRequests": 4}}))
    first, _ = desk.enter("a", sequences=2), desk.enter("b", sequences=2)
    desk.enter("c")
    assert desk.release() == ["a", "b"]
    assert desk.release() == []
    desk.send(first)
    desk.leave(first)
    assert desk.release() == ["c"]


def test_a_tenant_that_is_held_up_releases_nothing_until_it_is_not() -> None:
    desk = Desk()
    desk.enter("a")
    desk.stuck.add(GOLD)
    assert desk.release() == []
    desk.stuck.clear()
    assert desk.release() == ["a"]


def test_many_are_released_in_parts_and_the_tenant_is_remembered_for_the_next() -> None:
    desk = Desk(config(maximum=1000))
    names = [f"q{number}" for number in range(AT_A_TIME + 3)]
    for name in names:
        desk.enter(name)
    assert desk.release() == names[:AT_A_TIME]
    assert list(desk.books.to_release) == [GOLD]
    assert desk.release() == names[AT_A_TIME:]
    assert not desk.books.to_release


# Bounds.


def test_there_is_room_up_to_the_queues_bound() -> None:
    desk = Desk(config(maximum=3))
    desk.enter("a", sequences=2)
    assert refusal(desk.books, GOLD) is None
    refused = refusal(desk.books, GOLD, 2)
    assert refused is not None
    assert refused[0] is Refusal.QUEUE_FULL
    assert "(3 requests)" in refused[1]


@pytest.mark.parametrize(
    ("limits", "asks", "reason", "says"),
    [
        ({"queuedRequests": 2}, 1, Refusal.TENANT_QUEUE_FULL, "2 requests waiting"),
        ({"queuedRequests": 2}, 3, Refusal.UNSUPPORTED, "2 are all that your tenant may have waiting"),
        ({"runningRequests": 3}, 4, Refusal.UNSUPPORTED, "3 are all that your tenant may have running"),
        ({}, 101, Refusal.UNSUPPORTED, "100 are all that the pool's queue holds"),
    ],
)
def test_a_tenants_own_bounds_count_too(limits: dict[str, int], asks: int, reason: Refusal, says: str) -> None:
    desk = Desk(config(gold={"limits": limits}, silver={}))
    desk.enter("a", sequences=2)
    refused = refusal(desk.books, GOLD, asks)
    assert refused is not None
    assert refused[0] is reason
    assert says in refused[1]
    assert refusal(desk.books, SILVER) is None


def test_who_has_least_of_a_full_queue_displaces_the_newest_of_who_has_most() -> None:
    desk = Desk(config(maximum=2))
    old, new = desk.enter("old", GOLD), desk.enter("new", GOLD)
    assert refusal(desk.books, SILVER) is None
    desk.enter("theirs", SILVER)
    assert (hearing(old).events, hearing(new).events) == ([], ["displaced"])


def test_what_does_not_wait_any_more_is_not_displaced_and_the_new_one_is_refused() -> None:
    desk = Desk(config(maximum=2))
    desk.enter("old", GOLD)
    new = desk.enter("new", GOLD)
    desk.unmoved.add("new")
    with pytest.raises(RefusalError, match=r"The pool's queue is full \(2 requests\)"):
        desk.enter("theirs", SILVER)
    assert hearing(new).events == []


def test_a_larger_weight_is_a_larger_part_of_the_queue() -> None:
    desk = Desk(config(maximum=4, gold={"weight": 3}, silver={}))
    for name in ("a", "b", "c"):
        desk.enter(name, GOLD)
    desk.enter("theirs", SILVER)
    assert refusal(desk.books, SILVER) is not None
    assert refusal(desk.books, GOLD) is not None


def test_a_tenant_that_a_configuration_names_no_more_keeps_its_weight_for_what_it_still_has() -> None:
    desk = Desk(config(gold={"weight": 3}, silver={"weight": 2}))
    desk.books.configure(config(silver={"weight": 5}))
    assert [desk.books.weight(TenantId(name)) for name in ("gold", "silver", "never named")] == [3, 5, 1]


# What becomes of a run.


@pytest.mark.parametrize("completed", [True, False])
def test_a_run_is_aborted_if_one_of_its_requests_was_after_its_release(completed: bool) -> None:
    desk = Desk()
    request = desk.enter("a", run="r")
    desk.release()
    desk.send(request)
    desk.leave(request, completed=completed)
    assert request.run.aborted is not completed
    another = desk.enter("b", run="r")
    desk.release()
    desk.send(another)
    desk.leave(another, completed=True)
    assert another.run is request.run
    assert another.run.aborted is not completed, "what was aborted stays so"


def test_a_request_that_leaves_before_the_engine_has_it_is_aborted_whatever_is_said() -> None:
    desk = Desk()
    request = desk.enter("a", run="r")
    desk.release()
    desk.leave(request, completed=True)
    assert request.run.aborted


def test_a_request_that_leaves_before_its_release_aborts_nothing() -> None:
    desk = Desk()
    request = desk.enter("a", run="r")
    desk.leave(request, completed=False)
    assert not request.run.aborted
    assert request.stage is Stage.OVER


def test_only_what_was_completed_teaches_what_an_application_produces_for_each_sequence() -> None:
    desk = Desk()
    application = ApplicationId("ns/gold")
    for completed, produced, expected in ((False, 900, 1000), (True, 60, 30)):
        request = desk.enter(f"{completed}", sequences=3)
        desk.release()
        desk.send(request)
        request.account.produced = produced
        desk.leave(request, completed=completed)
        assert desk.books.outputs.predict(request.application, 1000) == expected
    assert request.application == application


@pytest.mark.parametrize("ends", [True, False])
def test_a_run_ends_with_the_request_that_says_so(ends: bool) -> None:
    desk = Desk()
    request = desk.enter("a", run="r")
    desk.leave(request, ends_run=ends)
    assert desk.over == ([request.run] if ends else [])


def test_a_flood_of_one_application_leaves_its_tenants_others_their_part_of_the_queue() -> None:
    desk = Desk(config(10))
    flood = [desk.enter(f"f{number}", application="flood") for number in range(10)]
    for number in range(5):
        desk.books.check_room(GOLD, ApplicationId("ns/chat"))
        desk.enter(f"c{number}", application="chat")
    assert [hearing(each).events for each in flood[4:6]] == [[], ["displaced"]]
    with pytest.raises(RefusalError):
        desk.books.check_room(GOLD, ApplicationId("ns/chat"))
