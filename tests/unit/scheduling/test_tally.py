"""What replicas counted of an objective, added up."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.objectives.attainment import PARTS
from justitia_scheduling.objectives.sketch import Sketch
from justitia_scheduling.objectives.tally import adds_up, tally

P90, BOUND = 0.9, 0.8
Values = Iterable[tuple[float, float]]
"""How long ago, as a share of the window, and the value in seconds."""


@dataclass(frozen=True)
class Part:
    total: int
    missed: int


@dataclass(frozen=True)
class Replica:
    """What one tells."""

    counted: tuple[Part, ...]
    values: tuple[tuple[int, int], ...]
    unattainable: bool = False
    opposed: bool = False


def replica(values: Values) -> Replica:
    values, sketch = list(values), Sketch()
    for _, value in values:
        sketch.add(value)
    parts = ([value for age, value in values if age < part] for part in PARTS)
    counted = tuple(Part(len(part), sum(value > BOUND for value in part)) for part in parts)
    return Replica(counted, tuple(sketch.state()))


def some(good: int, missed: int) -> Values:
    return [(0.9, 0.5)] * good + [(0.9, 2.0)] * missed


STREAM = st.lists(st.tuples(st.floats(0, 0.999), st.floats(0.01, 50)), max_size=80)


@given(STREAM, STREAM)
def test_two_replicas_add_up_to_what_one_would_have_seen(
    a: list[tuple[float, float]], b: list[tuple[float, float]]
) -> None:
    """Against the values themselves: shares by counting, the percentile by sorting."""
    seen, values = tally(P90, [replica(a), replica(b)]), [*a, *b]

    def missed(part: float) -> tuple[int, int]:
        inside = [value for age, value in values if age < part]
        return sum(value > BOUND for value in inside), len(inside)

    misses, count = missed(1)
    assert seen.count == count
    if not count:
        assert (seen.state, seen.value) == (None, None)
        return
    assert seen.share == pytest.approx(1 - misses / count)
    assert seen.budget == pytest.approx(1 - misses / count / 0.1)
    for burn, part in ((seen.fast_burn, 1 / 12), (seen.slow_burn, 1 / 2)):
        some_missed, of = missed(part)
        assert burn == pytest.approx(some_missed / of / 0.1 if of else 0)
    exact = sorted(value for _, value in values)[max(0, math.ceil(0.9 * count - 1e-9) - 1)]
    assert seen.value == pytest.approx(exact, rel=0.0101)


def test_replicas_that_differ_are_not_averaged() -> None:
    """One that serves little, and badly: neither its state nor the mean of both values is the application's."""
    busy, idle = replica(some(980, 20)), replica(some(10, 10))
    both, alone = tally(P90, [busy, idle]), tally(P90, [idle])
    assert (both.state, alone.state) == ("Met", "Missed")
    assert both.value == pytest.approx(0.5, rel=0.01)
    assert both.share == pytest.approx(990 / 1020)


def test_what_one_of_them_cannot_hold_is_unattainable() -> None:
    good = replica(some(100, 0))
    bad = replace(replica(some(0, 10)), unattainable=True)
    assert tally(P90, [good, bad]).state == "Unattainable"
    assert not tally(P90, [good, bad]).opposed
    assert tally(P90, [good, replace(bad, opposed=True)]).opposed


def test_one_that_is_opposed_and_holds_all_the_same_counts_as_unopposed() -> None:
    found = tally(P90, [replace(replica(some(100, 0)), opposed=True)])
    assert (found.state, found.opposed) == ("Met", False)


def test_of_nobody_nothing_is_known() -> None:
    found = tally(P90, [])
    assert (found.state, found.count, found.value) == (None, 0, None)


def test_counts_of_other_parts_of_the_window_do_not_add_up() -> None:
    told = replica(some(10, 0))
    strange = replace(told, counted=told.counted[:2])
    assert (adds_up(told), adds_up(strange)) == (True, False)
    with pytest.raises(ValueError, match="shorter"):
        tally(P90, [strange])
