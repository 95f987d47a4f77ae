"""Which of a tenant's held requests is released next: applications share the places, and one holds up no other."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_api.config import ApplicationConfig, PoolConfig, SchedulingConfig, TenantConfig, TenantLimits
from justitia_scheduling.core.model import ApplicationShare
from justitia_sidecar.admission.books import Books
from justitia_sidecar.admission.held_back import OLDEST_EACH, HeldBack
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import RunTable
from justitia_vocabulary.policies import PolicyName
from justitia_vocabulary.units import ApplicationId, TenantId
from support.examples import examples
from support.tracked import tracked_request

GOLD = TenantId("gold")
NAMES = ("a", "b", "c")


def application(name: str, weight: float = 1.0, priority: int = 0) -> ApplicationConfig:
    return ApplicationConfig(namespace="ns", name=name, tenant="gold", weight=weight, priority=priority)


def config(*applications: ApplicationConfig, policy: PolicyName = PolicyName.TIERED_JUSTITIA) -> PoolConfig:
    limits = TenantLimits(running_requests=1)
    return PoolConfig(
        generation=1,
        namespace="ns",
        name="pool",
        model="m",
        scheduling=SchedulingConfig(policy=policy),
        tenants=(TenantConfig(name="gold", weight=1, limits=limits),),
        applications=applications,
    )


class OneAtATime:
    """A tenant that may run one request at a time."""

    def __init__(self, given: PoolConfig) -> None:
        self.runs = RunTable(lambda run, now: None, lambda run, now: None)
        self.books = Books(given, self.runs, waits=lambda request: True, held_up=lambda tenant: False)
        self.asked = 0

    def ask(self, name: str, count: int = 1) -> None:
        for _ in range(count):
            self.asked += 1
            run = self.runs.enter(GOLD, application(name), None, self.asked)
            self.books.enter(tracked_request(f"{name}{self.asked}", run, arrival=self.asked))

    def serve(self, count: int) -> str:
        """The applications of the next requests, each of which is over before the next one begins."""
        served = ""
        for _ in range(count):
            (request,) = self.books.release(GOLD)
            served += request.id[0]
            self.books.leave(request, 0.0, completed=False, ends_run=True)
        return served


def test_an_application_that_floods_does_not_hold_up_its_tenants_others() -> None:
    tenant = OneAtATime(config(*map(application, NAMES)))
    tenant.ask("a", 50)
    assert tenant.serve(1) == "a"
    tenant.ask("b", 5)
    assert sorted(tenant.serve(4)) == ["a", "a", "b", "b"]


def test_an_application_that_did_not_ask_has_no_credit() -> None:
    tenant = OneAtATime(config(*map(application, NAMES)))
    tenant.ask("a", 60)
    tenant.serve(40)
    tenant.ask("b", 60)
    assert tenant.serve(10).count("b") == 5


def test_under_another_policy_the_flood_goes_first() -> None:
    """The control."""
    tenant = OneAtATime(config(*map(application, NAMES), policy=PolicyName.VTC))
    tenant.ask("a", 50)
    tenant.ask("b", 5)
    assert tenant.serve(20) == "a" * 20


def released(held: HeldBack, places: int) -> Counter[str]:
    """Whom so many places go to."""
    found: Counter[str] = Counter()
    for _ in range(places):
        request = held.next()
        held.release(request)
        found[request.id[0]] += 1
    return found


def flooded(shares: dict[str, ApplicationShare] | None, names: str = "ab", count: int = 400) -> HeldBack:
    held = HeldBack(lambda each: None if shares is None else shares[each.removeprefix("ns/")])
    runs = RunTable(lambda run, now: None, lambda run, now: None)
    for number in range(count):
        for name in names:
            run = runs.enter(GOLD, application(name), None, number)
            held.add(tracked_request(f"{name}{number}", run, arrival=float(number)))
    return held


def test_places_are_shared_by_weight() -> None:
    found = released(flooded({"a": ApplicationShare(1.0), "b": ApplicationShare(3.0)}), 320)
    assert found["b"] == pytest.approx(240, abs=5)


def test_a_higher_priority_goes_first_and_a_lower_one_still_moves() -> None:
    found = released(flooded({"a": ApplicationShare(priority=-1), "b": ApplicationShare()}), 10 * OLDEST_EACH)
    assert found == {"a": 10, "b": 10 * (OLDEST_EACH - 1)}


def test_where_the_policy_does_not_share_they_go_in_order_of_arrival() -> None:
    held = flooded(None, count=40)
    order = [held.next()]
    for _ in range(79):
        held.release(order[-1])
        if held:
            order.append(held.next())
    assert [request.timing.arrival for request in order] == sorted(request.timing.arrival for request in order)


@pytest.mark.parametrize(
    ("policy", "expected"), [(PolicyName.TIERED_JUSTITIA, "bbb"), (PolicyName.VTC, "aaa")], ids=str
)
def test_a_configuration_that_changes_counts_for_what_is_held(policy: PolicyName, expected: str) -> None:
    tenant = OneAtATime(config(application("a"), application("b")))
    tenant.ask("a", 5)
    tenant.ask("b", 5)
    tenant.books.configure(config(application("a"), application("b", priority=1), policy=policy))
    assert tenant.serve(3) == expected


@given(
    changes=st.lists(st.tuples(st.sampled_from(["add", "release", "back", "remove"]), st.integers(0, 99)), max_size=80),
    shares=st.none() | st.fixed_dictionaries({n: st.tuples(st.floats(0.1, 9), st.integers(-1, 1)) for n in NAMES}),
)
@examples(100)
def test_nothing_is_lost_and_the_next_is_the_first_of_an_application_of_the_highest_priority(
    changes: list[tuple[str, int]], shares: dict[str, tuple[float, int]] | None
) -> None:
    def share_of(name: ApplicationId) -> ApplicationShare | None:
        return None if shares is None else ApplicationShare(*shares[name.removeprefix("ns/")])

    runs, held = RunTable(lambda run, now: None, lambda run, now: None), HeldBack(share_of)
    waiting: list[TrackedRequest] = []
    out: list[TrackedRequest] = []
    releases = 0

    def priority(request: TrackedRequest) -> int:
        return (share_of(request.application) or ApplicationShare()).priority

    for number, (change, pick) in enumerate(changes):
        if change == "add":
            run = runs.enter(GOLD, application(NAMES[pick % 3]), None, number)
            waiting.append(request := tracked_request(f"q{number}", run, arrival=float(number)))
            held.add(request)
        elif change == "release" and waiting:
            held.release(request := held.next())
            waiting.remove(request)
            out.append(request)
            releases += 1
        elif change == "remove" and waiting:
            held.remove(waiting.pop(pick % len(waiting)))
        elif change == "back" and out:
            waiting.append(request := out.pop(pick % len(out)))
            held.add(request)
        assert sorted(r.id for r in held) == sorted(r.id for r in waiting)
        assert bool(held) == bool(waiting)
        if waiting:
            found = held.next()
            of_it = [r for r in waiting if shares is None or r.application == found.application]
            first = min(waiting if releases % OLDEST_EACH == OLDEST_EACH - 1 else of_it, key=lambda r: r.timing.arrival)
            assert found is first
            assert priority(found) == max(map(priority, waiting)) or releases % OLDEST_EACH == OLDEST_EACH - 1
