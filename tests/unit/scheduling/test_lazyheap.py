"""The lazy heap against a sorted list."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from justitia_scheduling.core.lazyheap import SLACK, LazyHeap
from support.examples import examples

ITEMS = st.sampled_from("abcdefgh")
KEYS = st.integers(0, 9)


def test_an_empty_heap_has_no_first() -> None:
    heap = LazyHeap[str]()
    assert (heap.first(), heap.top(), heap.least(), heap.first_grown({})) == (None, None, None, None)
    assert list(heap.in_order()) == []
    assert len(heap) == 0


def test_the_last_key_that_was_put_counts() -> None:
    heap = LazyHeap[str]()
    heap.put("a", (1, 0))
    heap.put("b", (2, 1))
    heap.put("a", (3, 0))
    assert (heap.first(), heap.key("a")) == ("b", (3, 0))
    heap.put("a", (0, 0))
    assert heap.first() == "a"


def test_what_left_is_not_first_though_its_entry_was() -> None:
    heap = LazyHeap[str]()
    heap.put("a", (1, 0))
    heap.put("b", (2, 1))
    heap.remove("a")
    assert (heap.first(), len(heap)) == ("b", 1)
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
    heap, grown = LazyHeap[str](), {"a": 5.0, "b": 2.0, "c": 3.0}
    for rank, item in enumerate(grown):
        heap.put(item, (0.0, rank))
    assert heap.first_grown(grown) == "b"
    assert [heap.key(item) for item in "abc"] == [(5.0, 0), (2.0, 1), (3.0, 2)]


def test_the_key_of_the_top_is_raised_in_its_place() -> None:
    heap = LazyHeap[str]()
    heap.put("a", (1, 0))
    heap.put("b", (2, 1))
    assert heap.top() == (1, 0, "a")
    heap.raise_top((3, 0))
    assert (heap.top(), heap.key("a")) == ((2, 1, "b"), (3, 0))


def test_no_key_is_smaller_than_the_least_that_is_told() -> None:
    heap = LazyHeap[str]()
    heap.put("a", (1,))
    heap.put("b", (2,))
    heap.remove("a")
    least = heap.least()
    assert least is not None
    assert least <= (2, "b")


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
        self.grown: dict[str, int] = {}

    @rule(item=ITEMS, key=KEYS)
    def put(self, item: str, key: int) -> None:
        self.heap.put(item, (key, item))
        self.put_as[item], self.grown[item] = (key, item), key

    @rule(item=ITEMS)
    def remove(self, item: str) -> None:
        if item in self.put_as:
            self.heap.remove(item)
            del self.put_as[item], self.grown[item]

    @rule(item=ITEMS, by=st.integers(1, 9))
    def grow(self, item: str, by: int) -> None:
        """A key grows without being put."""
        if item in self.grown:
            self.grown[item] += by

    @rule()
    def ask_by_grown_keys(self) -> None:
        """The key of what is looked at is put right; other keys stay."""
        assert self.heap.first_grown(self.grown) == min(self.grown, key=lambda i: (self.grown[i], i), default=None)
        for item, before in self.put_as.items():
            after = self.heap.key(item)
            assert after in (before, (self.grown[item], item))
            self.put_as[item] = (after[0], item)

    @precondition(lambda self: self.put_as)
    @rule(by=st.integers(1, 9))
    def raise_the_top(self, by: int) -> None:
        number, _, item = self.heap.top() or (0, "", "")
        self.heap.raise_top((number + by, item))
        self.put_as[item] = (number + by, item)
        self.grown[item] = max(self.grown[item], number + by)

    @invariant()
    def answers_are_those_of_a_sorted_list(self) -> None:
        expected = sorted(self.put_as, key=lambda item: self.put_as[item])
        assert self.heap.first() == (expected[0] if expected else None)
        assert self.heap.top() == ((*self.put_as[expected[0]], expected[0]) if expected else None)
        assert list(self.heap.in_order()) == expected
        assert len(self.heap) == len(expected)
        assert {item: self.heap.key(item) for item in expected} == self.put_as


def test_it_answers_as_a_sorted_list_does_whatever_came_and_left() -> None:
    run_state_machine_as_test(HeapMachine, settings=examples(200, stateful_step_count=50))


def test_a_heap_that_forgets_a_change_is_found_out() -> None:
    class Forgetful(LazyHeap[str]):
        def put(self, item: str, key: tuple[int, ...]) -> None:
            if len(self) < 2:
                super().put(item, key)

    machine = HeapMachine()
    machine.heap = Forgetful()
    machine.put("a", 2)
    machine.put("b", 1)
    machine.answers_are_those_of_a_sorted_list()
    machine.put("b", 3)
    with pytest.raises(AssertionError):
        machine.answers_are_those_of_a_sorted_list()
