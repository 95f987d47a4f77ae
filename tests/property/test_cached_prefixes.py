"""How much of a prompt the cache has is found with few questions, whatever came and went between two of them."""

import math

from hypothesis import given
from hypothesis import strategies as st

from justitia_engine.prefix import CachedPrefixes


@given(length=st.integers(0, 5000), there=st.lists(st.integers(0, 5000), min_size=1, max_size=8))
def test_the_first_blocks_are_counted_with_a_few_questions(length: int, there: list[int]) -> None:
    """The cache has the first `now` blocks, each time another number of them."""
    questions, now = 0, 0

    def has(block: int) -> bool:
        nonlocal questions
        questions += 1
        return block < now

    prefixes: CachedPrefixes[int] = CachedPrefixes(has)
    for now in (min(t, length) for t in there):
        questions = 0
        assert prefixes.blocks("r", range(length), length) == now
        assert questions <= 2 * math.log2(length + 2) + 2
        questions = 0
        assert prefixes.blocks("r", range(length), length) == now
        assert questions <= 2, "nothing has changed"


def test_a_request_that_is_forgotten_leaves_nothing() -> None:
    prefixes: CachedPrefixes[int] = CachedPrefixes(lambda block: block < 5)
    assert prefixes.blocks("r", range(10), 10) == 5
    prefixes.forget("r")
    assert not prefixes._found


@given(st.sets(st.integers(0, 40)), st.integers(0, 40))
def test_blocks_with_gaps_are_never_counted_beyond_one_that_is_there(blocks: set[int], length: int) -> None:
    """Where a cache does not evict from the end, the answer is a count that some block of the cache bears out."""
    found = CachedPrefixes(blocks.__contains__).blocks("r", range(length), length)
    assert found == 0 or found - 1 in blocks
