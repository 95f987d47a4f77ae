"""A room that tenants share by weight, under any history, against dues that are reckoned from a list of all entries."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_sidecar.limits.room import Owner, Room
from justitia_vocabulary.units import ApplicationId, TenantId

TENANTS = [TenantId(name) for name in "abcd"]


def only(tenant: TenantId) -> Owner:
    """The tenant's only application."""
    return Owner(tenant, ApplicationId(tenant))


Asked = tuple[str, TenantId, int, int]
HISTORIES = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.sampled_from(TENANTS), st.integers(1, 12), st.just(0)),
        st.tuples(st.just("leave"), st.sampled_from(TENANTS), st.integers(0, 99), st.just(0)),
        st.tuples(st.just("reweight"), st.sampled_from(TENANTS), st.sampled_from([1, 2, 3, 50, 1000]), st.just(0)),
    ),
    max_size=150,
)


class FirstComeFirstServed(Room[int]):
    """The negative control: nobody gives way."""

    def enter(self, owner: Owner, entry: int, size: int) -> list[int] | None:
        if self.capacity is not None and self.total + size > self.capacity:
            return None
        return super().enter(owner, entry, size)


class Oracle:
    """Knows every entry, and nothing of how the room finds who gives way."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: dict[int, tuple[TenantId, int]] = {}
        self.weights = dict.fromkeys(TENANTS, 1)

    def held(self, tenant: TenantId) -> int:
        return sum(size for owner, size in self.entries.values() if owner == tenant)

    def due(self, tenant: TenantId, asker: TenantId) -> Fraction:
        holders = {owner for owner, _ in self.entries.values()} | {asker}
        return Fraction(self.capacity * self.weights[tenant], sum(self.weights[t] for t in holders))

    def enter(self, room: Room[int], tenant: TenantId, entry: int, size: int) -> None:
        within = self.held(tenant) + size <= self.due(tenant, tenant)
        expected = room.has_room(only(tenant), size)
        displaced = room.enter(only(tenant), entry, size)
        assert (displaced is not None) or not within, "refused within its due"
        assert type(room) is FirstComeFirstServed or (displaced is not None) == expected
        for victim in displaced or []:
            owner, _ = self.entries[victim]
            assert owner != tenant
            assert victim == max(e for e, (of, _) in self.entries.items() if of == owner), "not its newest"
            assert self.held(owner) > self.due(owner, tenant), "lost something within its due"
            del self.entries[victim]
        if displaced is not None:
            self.entries[entry] = (tenant, size)
        assert room.total == sum(s for _, s in self.entries.values()) <= self.capacity
        assert all(room.held(t) == self.held(t) for t in TENANTS)


def check(history: list[Asked], capacity: int, kind: Callable[[int], Room[int]]) -> None:
    room, oracle = kind(capacity), Oracle(capacity)
    for entry, (what, tenant, value, _) in enumerate(history):
        match what:
            case "enter":
                oracle.enter(room, tenant, entry, value)
            case "leave":
                of_tenant = [e for e, (owner, _) in oracle.entries.items() if owner == tenant]
                leaving = of_tenant[value % len(of_tenant)] if of_tenant else -1
                room.leave(only(tenant), leaving)
                oracle.entries.pop(leaving, None)
            case "reweight":
                oracle.weights[tenant] = value
                room.reweight(oracle.weights, {})


@given(HISTORIES, st.integers(12, 40))
def test_who_is_within_its_due_is_never_refused_and_loses_nothing(history: list[Asked], capacity: int) -> None:
    check(history, capacity, Room)


def test_first_come_first_served_refuses_a_tenant_within_its_due() -> None:
    flood: list[Asked] = [("enter", TENANTS[0], 1, 0)] * 20
    with pytest.raises(AssertionError, match="refused within its due"):
        check([*flood, ("enter", TENANTS[1], 1, 0)], 20, FirstComeFirstServed)


def test_at_a_tie_the_asker_is_refused() -> None:
    room: Room[int] = Room(4)
    for entry in range(3):
        room.enter(only(TENANTS[0]), entry, 1)
    room.enter(only(TENANTS[1]), 3, 1)
    assert room.enter(only(TENANTS[1]), 4, 2) is None
    assert room.enter(only(TENANTS[1]), 5, 1) == [2]


def test_an_entry_that_cannot_be_displaced_stays() -> None:
    room: Room[int] = Room(2, lambda entry: entry != 1)
    room.enter(only(TENANTS[0]), 0, 1)
    room.enter(only(TENANTS[0]), 1, 1)
    assert room.enter(only(TENANTS[1]), 2, 1) is None
    assert (room.total, room.held(TENANTS[0])) == (2, 2)


# Applications of one tenant.

NAMES = [ApplicationId(name) for name in "xyz"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "enter", "leave"]),
        st.sampled_from(TENANTS[:2]),
        st.sampled_from(NAMES),
        st.integers(1, 6),
    ),
    max_size=80,
)
WEIGHTS = st.fixed_dictionaries({name: st.sampled_from([1, 2, 5]) for name in NAMES})


def of(tenant: TenantId, application: ApplicationId) -> Owner:
    return Owner(tenant, ApplicationId(f"{tenant}/{application}"))


def check_applications(
    steps: list[tuple[str, TenantId, ApplicationId, int]], weights: dict[ApplicationId, int], kind: type[Room[int]]
) -> None:
    """Against a list of all entries: an application within its due of what is left to its tenant gets
    in, and none loses anything to one of its own tenant that holds as much for its weight.
    """
    room, entries, capacity = kind(12), dict[int, tuple[Owner, int]](), 12
    weight = {of(tenant, name).application: weights[name] for tenant in TENANTS[:2] for name in NAMES}
    room.reweight({}, weight)

    def held(owner: Owner, more: int = 0) -> Fraction:
        """For its weight."""
        return Fraction(sum(s for o, s in entries.values() if o == owner) + more, weight[owner.application])

    for number, (what, tenant, name, size) in enumerate(steps):
        owner = of(tenant, name)
        if what == "leave":
            gone = next((entry for entry, (o, _) in entries.items() if o == owner), -1)
            room.leave(owner, gone)
            entries.pop(gone, None)
            continue
        expected, before = room.has_room(owner, size), dict(entries)
        displaced = room.enter(owner, number, size)
        assert (displaced is not None) == expected
        for victim in displaced or []:
            loser, _ = entries[victim]
            mine = [entry for entry, (o, _) in entries.items() if o == loser]
            assert victim == mine[-1], "not its newest"
            siblings = {o for o, _ in entries.values() if o.tenant == loser.tenant}
            assert held(loser) == max(map(held, siblings)), "not of the application that holds most"
            assert loser.tenant != tenant or held(loser) > held(owner, size), "of one that holds no more"
            del entries[victim]
        if displaced is None:
            siblings = {o for o, _ in before.values() if o.tenant == tenant} | {owner}
            left = capacity - sum(s for o, s in before.values() if o.tenant != tenant)
            due = Fraction(left, sum(weight[o.application] for o in siblings))
            assert held(owner, size) > due, "refused within its due of what is left to its tenant"
        else:
            entries[number] = (owner, size)
        assert room.total == sum(s for _, s in entries.values()) <= capacity


@given(STEPS, WEIGHTS)
def test_an_application_within_its_due_of_its_tenants_part_is_never_refused(
    steps: list[tuple[str, TenantId, ApplicationId, int]], weights: dict[ApplicationId, int]
) -> None:
    check_applications(steps, weights, Room)


class OfTenantsOnly(Room[int]):
    """The control: a tenant that holds most refuses its own."""

    def _gives_way(self, asker: Owner, size: int) -> Owner | None:
        giver = super()._gives_way(asker, size)
        return None if giver is None or giver.tenant == asker.tenant else giver


def test_without_room_by_application_one_is_refused_within_its_due() -> None:
    flood = [("enter", TENANTS[0], NAMES[0], 1)] * 12
    with pytest.raises(AssertionError, match="refused within its due of what is left"):
        check_applications([*flood, ("enter", TENANTS[0], NAMES[1], 1)], dict.fromkeys(NAMES, 1), OfTenantsOnly)
