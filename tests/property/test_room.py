"""A room that tenants share by weight, under any history, against dues that are reckoned from a list of all entries."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_sidecar.limits.room import Room
from justitia_vocabulary.units import TenantId

TENANTS = [TenantId(name) for name in "abcd"]
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

    def enter(self, tenant: TenantId, entry: int, size: int) -> list[int] | None:
        if self.capacity is not None and self.total + size > self.capacity:
            return None
        return super().enter(tenant, entry, size)


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
        expected = room.has_room(tenant, size)
        displaced = room.enter(tenant, entry, size)
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
                room.leave(tenant, leaving)
                oracle.entries.pop(leaving, None)
            case "reweight":
                oracle.weights[tenant] = value
                room.reweight(oracle.weights)


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
        room.enter(TENANTS[0], entry, 1)
    room.enter(TENANTS[1], 3, 1)
    assert room.enter(TENANTS[1], 4, 2) is None
    assert room.enter(TENANTS[1], 5, 1) == [2]


def test_an_entry_that_cannot_be_displaced_stays() -> None:
    room: Room[int] = Room(2, lambda entry: entry != 1)
    room.enter(TENANTS[0], 0, 1)
    room.enter(TENANTS[0], 1, 1)
    assert room.enter(TENANTS[1], 2, 1) is None
    assert (room.total, room.held(TENANTS[0])) == (2, 2)
