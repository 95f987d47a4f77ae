"""What is handed over keeps the order in the engine; the window holds what an engine begins in a turnaround."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.handover import LEAST, MOST, REMEMBERED, HandedOver, Window
from justitia_vocabulary.units import RequestId
from support.examples import examples

KEYS = st.lists(st.integers(0, 1000), min_size=1, max_size=60, unique=True)
TURNAROUND = 0.05


class Engine:
    """It takes the smallest number, the oldest of equal ones."""

    def __init__(self, keys: Sequence[int], *, by_arrival: bool = False) -> None:
        self.key = {RequestId(str(key)): (float(key),) for key in keys}
        self.handed = HandedOver(self.key.__getitem__)
        self.waiting: list[tuple[int, int, RequestId]] = []
        self.taken: list[RequestId] = []
        self._by_arrival = by_arrival
        self._count = 0

    def give(self, key: int) -> None:
        self._count += 1
        number = self.handed.hand_over(RequestId(str(key)))
        self.waiting.append((0 if self._by_arrival else number, self._count, RequestId(str(key))))

    def take(self) -> RequestId:
        entry = min(self.waiting)
        self.waiting.remove(entry)
        self.handed.discount(entry[2])
        self.taken.append(entry[2])
        return entry[2]


def wrong(keys: Sequence[int], takes: Sequence[bool], *, by_arrival: bool = False) -> int:
    """How often the engine took another request than the first in the order of those that it had."""
    engine, faults = Engine(keys, by_arrival=by_arrival), 0
    for key, takes_one in zip(keys, [*takes, *[False] * len(keys)], strict=False):
        engine.give(key)
        if takes_one:
            first = min((request for *_, request in engine.waiting), key=engine.key.__getitem__)
            faults += engine.take() != first
    while engine.waiting:
        first = min((request for *_, request in engine.waiting), key=engine.key.__getitem__)
        faults += engine.take() != first
    return faults


@examples(200)
@given(keys=KEYS, takes=st.lists(st.booleans(), max_size=60))
def test_the_engine_takes_requests_in_the_order_of_keys_that_stand(keys: list[int], takes: list[bool]) -> None:
    """As far as there are numbers between two: each that goes before the one before it halves the room."""
    if sum(a > b for a, b in pairwise(keys)) < 10:
        assert wrong(keys, takes) == 0


def test_numbers_of_one_kind_for_all_lose_the_order() -> None:
    """The negative control."""
    assert wrong([3, 2, 1], [], by_arrival=True) == 2


def test_thousands_go_before_a_request_that_stays_last_and_the_order_holds() -> None:
    keys = [10_000, *range(5_000)]
    engine = Engine(keys)
    engine.give(keys[0])
    for key in keys[1:]:
        engine.give(key)
        if key >= 50:
            assert engine.take() == str(key - 50)


def test_the_engine_gets_the_numbers_in_a_64_bit_integer_for_years() -> None:
    handed = HandedOver(lambda request: (float(request),))
    numbers = [handed.hand_over(RequestId(str(i))) for i in range(100)]
    a_second = (numbers[-1] - numbers[0]) / 99 * 1000
    assert 2**63 / a_second / 86_400 > 365


@examples(100)
@given(keys=KEYS, begun=st.sets(st.integers(0, 59)), head=st.integers(0, 1000), limit=st.integers(1, 70))
def test_those_before_a_request_are_counted_among_those_that_have_not_begun(
    keys: list[int], begun: set[int], head: int, limit: int
) -> None:
    engine = Engine([*keys, head])
    for key in keys:
        engine.give(key)
    for i in begun:
        if i < len(keys):
            engine.handed.discount(RequestId(str(keys[i])))
    before = sum(key < head for i, key in enumerate(keys) if i not in begun)
    assert engine.handed.fewer_before(RequestId(str(head)), limit) == (before < limit)


@examples(200)
@given(gaps=st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.1, 3.0, 30.0]), min_size=1, max_size=120))
def test_the_window_is_what_a_count_of_all_beginnings_says(gaps: list[float]) -> None:
    window, moments, bursts = Window(), list[float](), list[tuple[float, int]]()
    for gap in gaps:
        now = (moments[-1] if moments else 0.0) + gap
        moments.append(now)
        window.begun(now, TURNAROUND)
        bursts.append((now, min(MOST, sum(now - TURNAROUND <= m for m in moments))))
        expected = 1 + 2 * max(burst for at, burst in bursts if at >= now - REMEMBERED)
        assert window.size == max(LEAST, min(expected, MOST))


@pytest.mark.parametrize(("takes", "reached"), [(3, LEAST), (10, 21), (1000, MOST)])
def test_the_window_grows_until_the_engine_takes_no_more(takes: int, reached: int) -> None:
    """An engine that takes up to so many in a turnaround, and is given what the window allows."""
    window, now = Window(), 0.0
    for _ in range(20):
        for _ in range(min(takes, window.size)):
            window.begun(now, TURNAROUND)
        now += 2 * TURNAROUND
    assert window.size == reached


def test_after_a_stall_the_window_is_as_it_was_soon() -> None:
    """All that began during a stall is seen at once."""
    window = Window()
    for _ in range(30):
        window.begun(1.0, TURNAROUND)
    assert window.size == 61
    window.begun(1.0 + REMEMBERED + 0.01, TURNAROUND)
    assert window.size == LEAST
