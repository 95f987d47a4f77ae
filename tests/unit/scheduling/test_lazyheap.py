"""The lazy heap against a sorted list."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from justitia_scheduling.core.lazyheap import SLACK, LazyHeap

ITEMS = st.sampled_from("abcdefgh")
KEYS = st.integers(0, 9)


def test_an_empty_heap_has_no_first() -> None:
    heap = LazyHeap[str]()
    assert heap.first() is None
    assert heap.first_by(lambda item: (0,)) is None
    assert list(heap.in_order()) == []
    assert len(heap) == 0


def test_the_last_key_that_was_put_counts() -> None:
    heap = LazyHeap[str]()
    heap.put("a", (1, 0))
    heap.put("b", (2, 1))
    heap.put("a", (3, 0))
    assert (heap.first(), heap["a"]) == ("b", (3, 0))
    heap.put("a", (0, 0))
    assert heap.first() == "a"


def test_what_left_is_not_first_though_its_entry_was() -> None:
    heap = LazyHeap[str]()
    heap.put("a", (1, 0))
    heap.put("b", (2, 1))
    heap.remove("a")
    assert (heap.first(), "a" in heap, len(heap)) == ("b", False, 1)
    with pytest.raises(KeyError):
        heap.remove("a")


def test_of_equal_keys_the_items_decide() -> None:
    heap = LazyHeap[str]()
    for item in "cab":
        heap.put(item, (1.0,))
    assert "".join(heap.in_order()) == "abc"


def test_after_it_is_cleared_nothing_is_there() -> None:
    heap = LazyHeap[str]()
    heap.put("a", (1,))
    heap.clear()
    assert (heap.first(), len(heap)) == (None, 0)


def test_a_key_that_has_grown_is_put_right_when_it_comes_to_the_top() -> None:
    heap, present = LazyHeap[str](), {"a": (5,), "b": (2,), "c": (3,)}
    for item in present:
        heap.put(item, (0,))
    assert heap.first_by(present.get) == "b"
    assert heap["b"] == (2,)
    del present["b"]
    assert heap.first_by(present.get) == "c"
    assert "b" not in heap


def test_entries_out_of_date_do_not_pile_up() -> None:
    """By the number of comparisons that a walk through the heap makes: each entry is compared at least once."""
    compared = 0

    class Counted(int):
        def __lt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) < int(other)

    heap = LazyHeap[str]()
    for number in range(10_000):
        heap.put("a", (Counted(10_000 - number),))
    compared = 0
    assert list(heap.in_order()) == ["a"]
    assert compared <= 20 * (2 + SLACK)


class HeapMachine(RuleBasedStateMachine):
    """Every operation, beside a dictionary that is sorted for each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.heap: LazyHeap[str] = LazyHeap()
        self.put_as: dict[str, tuple[int, str]] = {}
        self.present: dict[str, tuple[int, str]] = {}

    @rule(item=ITEMS, key=KEYS)
    def put(self, item: str, key: int) -> None:
        self.heap.put(item, (key, item))
        self.put_as[item] = self.present[item] = (key, item)

    @rule(item=ITEMS)
    def remove(self, item: str) -> None:
        if item in self.put_as:
            self.heap.remove(item)
            del self.put_as[item], self.present[item]

    @rule(item=ITEMS, by=st.integers(1, 9))
    def grow(self, item: str, by: int) -> None:
        """A key grows without being put."""
        if item in self.present:
            self.present[item] = (self.present[item][0] + by, item)

    @rule()
    def ask_by_present_keys(self) -> None:
        first = min(self.present, key=lambda item: self.present[item], default=None)
        assert self.heap.first_by(self.present.get) == first
        self.put_as = {item: self.heap[item] for item in self.put_as}  # type: ignore[misc]
        assert all(self.put_as[item] <= self.present[item] for item in self.put_as)

    @invariant()
    def answers_are_those_of_a_sorted_list(self) -> None:
        expected = sorted(self.put_as, key=lambda item: self.put_as[item])
        assert self.heap.first() == (expected[0] if expected else None)
        assert list(self.heap.in_order()) == expected
        assert len(self.heap) == len(expected)
        assert {item: self.heap[item] for item in expected} == self.put_as


def test_it_answers_as_a_sorted_list_does_whatever_came_and_left() -> None:
    run_state_machine_as_test(HeapMachine, settings=settings(max_examples=200, stateful_step_count=50))


def test_a_heap_that_forgets_a_change_is_found_out() -> None:
    class Forgetful(LazyHeap[str]):
        def put(self, item: str, key: tuple[int, ...]) -> None:
            if item not in self:
                super().put(item, key)

    machine = HeapMachine()
    machine.heap = Forgetful()
    machine.put("a", 2)
    machine.put("b", 1)
    machine.answers_are_those_of_a_sorted_list()
    machine.put("b", 3)
    with pytest.raises(AssertionError):
        machine.answers_are_those_of_a_sorted_list()
