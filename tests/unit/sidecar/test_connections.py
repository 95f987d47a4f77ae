from hypothesis import given
from hypothesis import strategies as st

from justitia_sidecar.ports.connections import Seats
from justitia_vocabulary.units import TenantId

A, B, C = TenantId("a"), TenantId("b"), TenantId("c")


def _member(seats: Seats[str], name: str, tenant: TenantId, *, idle: bool = True) -> str | None:
    """Who has to go."""
    assert seats.enter(name, "gateway") is None
    loser = seats.authenticate(name, tenant)
    if idle and loser != name:
        seats.over(name)
    return loser


def test_the_longest_silent_of_the_address_that_holds_most_gives_way() -> None:
    seats: Seats[str] = Seats(3)
    for name, address in (("a", "one"), ("b", "two"), ("c", "two")):
        assert seats.enter(name, address) is None
    seats.heard("b")
    assert seats.enter("d", "one") == "c"
    seats.heard("a")
    assert seats.enter("e", "two") == "d"


def test_guests_take_no_seat_of_a_tenant() -> None:
    seats: Seats[str] = Seats(2)
    assert _member(seats, "a", A) is None
    assert seats.enter("b", "one") is None
    assert seats.enter("c", "two") == "b"


def test_a_seat_is_free_again_once() -> None:
    seats: Seats[str] = Seats(1)
    seats.enter("a", "one")
    seats.leave("a")
    seats.leave("a")
    assert seats.enter("b", "one") is None
    assert seats.enter("c", "two") == "b"


def test_the_tenant_that_holds_most_loses_its_longest_idle() -> None:
    seats: Seats[str] = Seats(5)
    for name in ("a1", "a2", "a3"):
        assert _member(seats, name, A) is None
    seats.begun("a1")
    assert _member(seats, "b1", B) is None
    assert _member(seats, "b2", B) == "a2"


def test_idle_ones_of_another_go_before_a_request_under_way() -> None:
    seats: Seats[str] = Seats(9)
    for name in ("a1", "a2", "a3", "a4"):
        assert _member(seats, name, A, idle=False) is None
    for name in ("b1", "b2", "b3"):
        assert _member(seats, name, B) is None
    assert _member(seats, "c1", C, idle=False) is None
    assert _member(seats, "c2", C) == "b1"


def test_the_newest_request_of_the_tenant_that_holds_most_goes_where_none_is_idle() -> None:
    seats: Seats[str] = Seats(4)
    for name in ("a1", "a2", "a3"):
        assert _member(seats, name, A, idle=False) is None
    assert _member(seats, "b1", B) == "a3"
    assert _member(seats, "a4", A, idle=False) == "a4"


def test_a_connection_belongs_to_the_tenant_that_used_it_last() -> None:
    seats: Seats[str] = Seats(4)
    for name in ("a", "b", "c"):
        _member(seats, name, A)
    for name in ("a", "b"):
        seats.begun(name)
        seats.authenticate(name, B)
        seats.over(name)
    assert _member(seats, "d", C) == "a"


_STEPS = st.lists(st.tuples(st.sampled_from("eabcboxl"), st.integers(0, 15)), max_size=150)


@given(_STEPS, st.integers(2, 12))
def test_no_tenant_within_its_part_loses_a_connection(steps: list[tuple[str, int]], most: int) -> None:
    seats: Seats[int] = Seats(most)
    tenants = most - max(1, most // 8)
    holds: dict[int, str] = {}
    for do, who in steps:
        before = dict(holds)
        loser: int | None = None
        if do == "e" and who not in holds:
            holds[who] = ""
            loser = seats.enter(who, str(who % 3))
            assert loser is None or holds[loser] == ""
        elif do in "abc" and who in holds:
            seats.begun(who)
            holds[who] = do
            loser = seats.authenticate(who, TenantId(do))
            if loser is not None:
                of = list(holds.values())
                assert of.count(holds[loser]) * len(set(of) - {""}) > tenants, before
        elif do == "o":
            seats.over(who)
        elif do == "x":
            seats.begun(who)
        elif do == "l":
            seats.leave(who)
            holds.pop(who, None)
        if loser is not None:
            del holds[loser]
        assert len(holds) <= most
        assert sum(1 for each in holds.values() if each) <= tenants
