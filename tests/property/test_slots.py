"""A tenant's running requests over a pool: the limit holds, all of it is used, and nobody is left out."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_api.config import TenantLimits
from justitia_sidecar.pool import limits
from justitia_sidecar.pool.limits import TRUST
from justitia_sidecar.pool.slots import Demand, Slots, dues
from justitia_sidecar.pool.state import LEASE
from justitia_sidecar.pool.updates import LimitUse, WriterId
from justitia_sidecar.pool.uses import Uses
from justitia_vocabulary.units import Seconds
from support.examples import examples
from support.limited_pool import LimitedPool, LimitedSidecar, config_with

Act = tuple[str, int, object]

AT = st.integers(0, 4)
ACT = st.one_of(
    st.tuples(st.just("asks"), AT, st.lists(st.integers(1, 3), min_size=1, max_size=4)),
    st.tuples(st.just("finishes"), AT, st.integers(1, 3)),
    st.tuples(st.sampled_from(["exchanges", "exchanges", "writes", "reads"]), AT, st.none()),
    st.tuples(st.sampled_from(["loses the answer", "does not write"]), AT, st.none()),
    st.tuples(st.just("hears"), AT, st.integers(0, 5)),
    st.tuples(st.just("time passes"), AT, st.floats(0.01, 1.0)),
    st.tuples(st.sampled_from(["dies", "joins"]), AT, st.none()),
)
"""What may happen while all read the whole log and none is cut off."""
NEW_LIMITS = st.tuples(st.just("has a limit"), AT, st.integers(3, 8))
ACTS = st.lists(ACT, min_size=10, max_size=120)
MOST_SIDECARS = 5


def happens(pool: LimitedPool, limit: int, act: Act) -> None:
    what, where, how = act
    at = pool.sidecars[where % len(pool.sidecars)]
    match what, how:
        case "time passes", float():
            pool.now += how
        case "joins", _:
            if len(pool.sidecars) < MOST_SIDECARS:
                pool.joins(limit)
        case "dies", _:
            at.dies()
        case _ if at.alive:
            happens_at(at, what, how)


def happens_at(at: LimitedSidecar, what: str, how: object) -> None:
    match what, how:
        case "asks", list():
            at.asks(*how)
        case "finishes", int():
            at.finishes(how)
        case "has a limit", int():
            at.limit_is(how)
        case "writes", _:
            at.write()
        case "reads", _:
            at.read()
        case "hears", int():
            at.hear(how)
        case "loses the answer" | "does not write", _ if at.met:
            if what == "loses the answer":
                at.write()
            else:
                at.sharing.update(at.pool.now)
            at.fails()
        case _:
            at.exchange()


def none_is_cut_off(pool: LimitedPool) -> None:
    for each in pool.sidecars:
        if each.alive and pool.now - each.succeeded > TRUST / 2:
            each.exchange()


def over_the_limit(acts: Sequence[Act], limit: int) -> int:
    """By how much the requests that run exceed the limit at most. Each begins as soon as it may."""
    pool, over = LimitedPool(2, limit), 0
    for act in acts:
        happens(pool, limit, act)
        none_is_cut_off(pool)
        for each in pool.sidecars:
            each.begin()
        over = max(over, pool.used - limit)
    return over


@given(acts=ACTS, limit=st.integers(3, 8))
@examples(600, deadline=None)
def test_the_limit_is_never_exceeded_while_all_read_the_log(acts: list[Act], limit: int) -> None:
    """Whatever is read late or in parts, written twice, not answered, or gone."""
    assert over_the_limit(acts, limit) <= 0


AT_ONCE: list[Act] = [
    *[("exchanges", at, None) for at in (0, 1) * 4],
    *[("asks", at, [1] * 9) for at in (0, 1)],
    *[(what, at, None) for what in ("writes", "reads") for at in (0, 1)],
]
"""Two sidecars have an equal part, and both want what is left."""


def granted_as_claimed(self: Slots, limit: int) -> bool:
    self.granted = self.claim.slots
    return True


def used_before_it_is_read(self: Slots, limit: int, part: int, demand: Demand, now: Seconds) -> bool:
    contended = _DECIDE(self, limit, part, demand, now)
    self.granted = self._keeps = min(demand.wants, limit - self.taken)
    return contended


_DECIDE = Slots.decide


@pytest.mark.parametrize(
    ("where", "name", "instead"),
    [
        (Slots, "said", granted_as_claimed),
        (Slots, "decide", used_before_it_is_read),
    ],
    ids=["who uses what it claims", "who does not wait until it has read its claim"],
)
def test_control_it_is_exceeded_by(
    where: type, name: str, instead: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert over_the_limit(AT_ONCE, 5) == 0
    monkeypatch.setattr(where, name, instead)
    assert over_the_limit(AT_ONCE, 5) > 0


@given(acts=st.lists(ACT | NEW_LIMITS, min_size=10, max_size=120), limit=st.integers(3, 8))
@examples(300, deadline=None)
def test_while_a_limit_changes_the_largest_that_is_in_effect_somewhere_holds(acts: list[Act], limit: int) -> None:
    largest = max([limit, *(how for what, _, how in acts if what == "has a limit" and isinstance(how, int))])
    assert over_the_limit(acts, limit) <= largest - limit


# Who is gone, or does not hear.


def flooded(sidecars: int, limit: int, *, settled: Seconds = 6.0) -> LimitedPool:
    """A pool in which all want all slots, and requests do not end."""
    pool = LimitedPool(sidecars, limit)
    pool.passes(3.0)
    for each in pool.sidecars:
        each.asks(*[1] * 1000)
    pool.passes(settled)
    return pool


@pytest.mark.parametrize(("sidecars", "limit"), [(2, 2), (3, 8), (8, 1), (5, 12)])
def test_the_slots_of_a_sidecar_that_is_gone_come_back_after_its_lease(sidecars: int, limit: int) -> None:
    pool = flooded(sidecars, limit)
    assert pool.used == limit
    dead = max(pool.sidecars, key=lambda each: each.used)
    had = dead.used
    dead.dies()
    pool.passes(LEASE - 1.0)
    assert pool.used == limit - had
    pool.passes(3.0)
    assert pool.used == limit


def one_cut_off(sidecars: int, limit: int) -> tuple[LimitedPool, int]:
    """A pool of which one sidecar has all slots and does not reach the log any more, long after the others want slots,
    too; and the most that ran meanwhile. Requests end, and others follow.
    """
    pool, most = LimitedPool(sidecars, limit), 0
    pool.passes(3.0)
    away = pool.sidecars[0]
    away.asks(*[1] * 1000)
    pool.passes(3.0)
    assert away.used == limit
    for each in pool.sidecars[1:]:
        each.asks(*[1] * 1000)
    for _ in range(40):
        pool.passes(1.0, without=[away])
        away.sharing.update(pool.now)
        away.fails()
        for each in pool.sidecars:
            each.finishes()
        most = max(most, pool.used)
    return pool, most


@pytest.mark.parametrize(("sidecars", "limit"), [(2, 2), (3, 8), (8, 1), (5, 12)])
def test_a_sidecar_that_is_cut_off_goes_back_to_a_part(sidecars: int, limit: int) -> None:
    pool, most = one_cut_off(sidecars, limit)
    assert most <= 2 * limit
    assert pool.used == limit + max(1, limit // sidecars)
    for _ in range(3 * limit):
        pool.passes(1.0)
        for each in pool.sidecars:
            each.finishes()
    assert pool.used <= limit


def test_control_who_trusts_the_log_for_longer_has_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRUST", 1e9)
    assert one_cut_off(2, 8)[0].used == 2 * 8


@pytest.mark.parametrize(("sidecars", "limit"), [(2, 2), (3, 8), (8, 1)])
def test_while_the_log_is_away_each_has_a_part_and_at_least_one(sidecars: int, limit: int) -> None:
    pool = flooded(sidecars, limit)
    for _ in range(60):
        pool.now += 0.5
        for each in pool.sidecars:
            each.sharing.update(pool.now)
            each.fails()
            each.finishes()
    assert {each.used for each in pool.sidecars} == {max(1, limit // sidecars)}
    most = pool.used
    for _ in range(40):
        pool.passes(0.5)
        for each in pool.sidecars:
            each.finishes()
        assert pool.used <= max(most, limit)
    pool.passes(3.0)
    assert pool.used == limit


def misses_a_claim() -> LimitedPool:
    """Two sidecars want all slots. One does not hear that the other has taken them."""
    pool = LimitedPool(2, 4)
    pool.passes(4.0)
    one, another = pool.sidecars
    one.asks(*[1] * 9)
    for at in (one, another):
        at.exchange()
    one.exchange()
    assert one.used == 4
    one.exchange()
    another.read_to = len(pool.log)
    one.write()
    another.asks(*[1] * 9)
    another.exchange()
    return pool


def test_who_has_missed_something_takes_nothing_until_it_knows_all_again() -> None:
    pool = misses_a_claim()
    assert pool.used == 4
    for _ in range(30):
        pool.passes(0.5)
        for each in pool.sidecars:
            each.finishes()
        assert pool.used <= 4
    assert pool.sidecars[1].begun == 9


def test_control_who_does_not_mind_what_it_has_missed_takes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Uses, "sure", True)
    assert misses_a_claim().used > 4


def test_after_the_server_has_lost_its_log_the_limit_holds_again_once_requests_have_ended() -> None:
    """What was claimed in the lost part is not known to who claims in the new one."""
    pool = LimitedPool(2, 8)
    pool.passes(4.0)
    one, another = pool.sidecars
    one.asks(*[1] * 1000)
    another.exchange()
    one.exchange()
    one.exchange()
    pool.log.clear()
    one.read_to = another.read_to = 0
    another.asks(*[1] * 1000)
    most = 0
    for _ in range(30):
        pool.passes(0.5)
        most = max(most, pool.used)
        for each in pool.sidecars:
            each.finishes()
    assert most <= 2 * 8
    pool.passes(2.0)
    assert pool.used == 8


@pytest.mark.parametrize("limit", [1, 3])
def test_a_limit_that_was_lowered_holds_once_requests_have_ended(limit: int) -> None:
    pool = flooded(3, 9)
    for each in pool.sidecars:
        each.limit_is(limit)
    for _ in range(12):
        pool.passes(0.5)
        for each in pool.sidecars:
            each.finishes()
    pool.passes(1.0)
    assert pool.used == limit


def test_a_limit_that_is_new_counts_what_runs_already() -> None:
    pool = LimitedPool(2, 100)
    pool.passes(3.0)
    for each in pool.sidecars:
        each.asks(*[1] * 40)
        each.limits.configure(config_with(TenantLimits()), shares=True)
    pool.passes(1.0)
    for each in pool.sidecars:
        each.limit_is(4)
        each.asks(*[1] * 40)
    for _ in range(50):
        before = pool.used
        pool.passes(0.5)
        assert pool.used <= max(before, 4)
        for each in pool.sidecars:
            each.finishes()
    pool.passes(1.0)
    assert pool.used == 4


# All slots, and everybody.


@given(
    sidecars=st.integers(1, 6),
    limit=st.integers(1, 12),
    data=st.data(),
)
@examples(90, deadline=None)
def test_all_slots_are_used_and_everybody_gets_some(sidecars: int, limit: int, data: st.DataObject) -> None:
    pool = LimitedPool(sidecars, limit)
    pool.passes(3.0)
    sizes = [data.draw(st.integers(1, limit), label="sequences of a request") for _ in pool.sidecars]
    for each, size in zip(pool.sidecars, sizes, strict=True):
        each.asks(*[size] * 1000)
    used = []
    rounds = 40 * sidecars
    for turn in range(rounds):
        pool.passes(0.5)
        assert pool.used <= limit
        used.append(pool.used)
        if turn % 2:
            for each in pool.sidecars:
                each.finishes(limit)
    fewest = min(each.begun for each in pool.sidecars)
    assert fewest >= rounds / (2 * sidecars * 8)
    if set(sizes) == {1} and sidecars <= limit:
        assert sum(used[6:]) / len(used[6:]) > 0.9 * limit


def keeps_all(self: Slots, limit: int, wants: int, due: dict[WriterId, int]) -> int:
    return min(wants, max(self.granted, limit - self.taken))


def test_control_who_gives_nothing_up_leaves_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slots, "_under_contention", keeps_all)
    pool = flooded(3, 2)
    for _ in range(100):
        pool.passes(0.5)
        for each in pool.sidecars:
            each.finishes()
    assert min(each.begun for each in pool.sidecars) == 0


@pytest.mark.parametrize(("sidecars", "limit"), [(2, 2), (8, 16), (8, 4), (3, 100), (8, 1)])
def test_a_tenant_at_one_sidecar_alone_has_its_whole_limit_within_two_exchanges(sidecars: int, limit: int) -> None:
    pool = LimitedPool(sidecars, limit)
    pool.passes(4.0)
    pool.sidecars[-1].asks(*[1] * (limit + 5))
    pool.passes(1.0)
    assert pool.sidecars[-1].used == limit


@pytest.mark.parametrize(("sidecars", "limit"), [(2, 2), (8, 16), (8, 8), (3, 100)])
def test_a_request_does_not_wait_where_its_tenant_has_an_equal_part(sidecars: int, limit: int) -> None:
    pool = LimitedPool(sidecars, limit)
    pool.passes(8.0)
    for each in pool.sidecars:
        each.asks(*[1] * (limit // sidecars))
    assert pool.used == limit // sidecars * sidecars


def test_alone_a_sidecar_has_the_limit() -> None:
    pool = LimitedPool(1, 5)
    pool.passes(1.0)
    pool.sidecars[0].asks(*[1] * 9)
    assert pool.used == 5


# What is due.


def level_by_filling(limit: int, wants: list[int]) -> list[int]:
    """An oracle for max-min fairness: all get one more in turn, as long as all that want one can have it."""
    has = [0] * len(wants)
    while (short := [at for at, want in enumerate(wants) if has[at] < want]) and len(short) <= limit - sum(has):
        for at in short:
            has[at] += 1
    return has


ASKED = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.integers(0, 5)), min_size=1, max_size=6
)


@given(limit=st.integers(1, 20), asked=ASKED)
@examples(300)
def test_dues_are_equal_parts_and_who_needs_more_at_once_goes_first_in_turn(
    limit: int, asked: list[tuple[int, int, int, int]]
) -> None:
    uses = {
        WriterId(str(at)): LimitUse(slots, min(wants, limit), min(at_once, limit), ticket)
        for at, (slots, wants, at_once, ticket) in enumerate(asked)
    }
    due = dues(limit, uses)
    fair = dict(zip(uses, level_by_filling(limit, [each.wants for each in uses.values()]), strict=True))
    needs = {name: min(each.at_once, each.wants) for name, each in uses.items()}
    assert sum(due.values()) <= limit
    if all(needs[name] <= fair[name] for name in uses):
        assert due == fair
    served = [(each.ticket, name) for name, each in uses.items() if needs[name] == due[name] > 0]
    for name, each in uses.items():
        assert due[name] >= needs[name] or min(served) < (each.ticket, name)
