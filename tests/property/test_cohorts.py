"""Sums over slices, however they are come by, are those of the slices one by one."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.objectives.cohorts import Cohort, Cohorts

WIDTH, SLICES, BOUND = 2.0, 6, 1.0

arrivals = st.integers(0, 40)
values = st.sampled_from([0.1, 0.5, 1.0, 1.5, 9.0])
steps = st.lists(
    st.one_of(st.tuples(arrivals, values), arrivals, st.sampled_from(["merge", "restart"])), min_size=1, max_size=40
)
spans = st.tuples(st.integers(-2, 22), st.integers(0, 24))


def after(steps: list[object], kind: type[Cohorts] = Cohorts) -> Cohorts:
    ring = kind(WIDTH, SLICES)
    for step in steps:
        match step:
            case (int(arrival), float(value)):
                ring.add(arrival, value, value <= BOUND)
            case int(now):
                ring.advance(now)
            case "merge":
                other = Cohorts(WIDTH, SLICES)
                other.add(30, 0.5, True)
                ring.merge(other)
            case _:
                again = Cohorts(WIDTH, SLICES)
                again.restore(ring.state())
                ring = again
    return ring


def one_by_one(ring: Cohorts, first: int, end: int) -> tuple[int, int, list[tuple[int, int]]]:
    total, good, buckets = 0, 0, Counter[int]()
    for index, n, within, counts in ring.state():
        if first <= index < end:
            total, good = total + n, good + within
            buckets.update(dict(counts))
    return total, good, sorted(buckets.items())


def told(cohort: Cohort) -> tuple[int, int, list[tuple[int, int]]]:
    return cohort.total, cohort.good, cohort.values.state()


@given(steps, spans)
def test_a_sum_is_that_of_its_slices(steps: list[object], span: tuple[int, int]) -> None:
    ring = after(steps)
    found = ring.sum(*span)
    assert told(found) == one_by_one(ring, *span)
    assert found.values.count == found.total
    assert told(ring.sum(*span, values=False)) == (found.total, found.good, [])


def test_the_check_sees_a_sum_that_forgot_nothing() -> None:
    class NeverForgets(Cohorts):
        def sum(self, first: int, end: int, *, values: bool = True) -> Cohort:
            total = super().sum(first, end, values=values)
            total.add(0.5, good=True)
            return total

    ring = after([(0, 0.5), (1, 9.0), (12, 0.5)], NeverForgets)
    assert told(ring.sum(1, 24)) != one_by_one(ring, 1, 24)
