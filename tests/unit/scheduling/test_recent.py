"""The largest of what was seen lately, against all of it."""

from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.recent import RecentMaximum


@given(values=st.lists(st.integers(1, 100), max_size=60), memory=st.integers(1, 20))
def test_it_is_between_that_of_the_last_few_and_that_of_twice_as_many(values: list[int], memory: int) -> None:
    recent = RecentMaximum(memory, 1)
    for seen, value in enumerate(values, start=1):
        recent.observe(value)
        at_least, at_most = (max(values[max(0, seen - n) : seen]) for n in (memory, 2 * memory))
        assert at_least <= recent.value <= at_most
        recent.count()


@given(steps=st.lists(st.integers(1, 7), min_size=1, max_size=30))
def test_it_tells_when_something_may_be_forgotten(steps: list[int]) -> None:
    recent = RecentMaximum(7, 0.0)
    recent.observe(1.0)
    forgotten = [recent.count(more) for more in steps]
    assert (recent.value == 0.0) == (sum(forgotten) >= 2)
