import heapq

from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.heapwalk import ascending


@given(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=1))))
def test_entries_come_in_order_and_stay(entries: list[tuple[int, str]]) -> None:
    heapq.heapify(entries)
    before = list(entries)
    assert list(ascending(entries)) == sorted(entries)
    assert entries == before
