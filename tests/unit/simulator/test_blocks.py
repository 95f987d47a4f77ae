"""Paged KV by hand: blocks of 4 tokens."""

from justitia_simulator.blocks import BlockPool


def pool(tokens: int = 40, *, keep: bool = False) -> BlockPool:
    return BlockPool(tokens, 4, keep=keep)


def test_a_request_holds_whole_blocks() -> None:
    p = pool()
    holding = p.hold(None, 0)
    assert p.grow(holding, 5)
    assert p.free == 8
    assert p.grow(holding, 8)
    assert p.free == 8
    assert p.grow(holding, 9)
    assert p.free == 7
    p.release(holding, 9)
    assert p.free == p.total == 10


def test_growth_that_does_not_fit_changes_nothing() -> None:
    p = pool(8)
    a, b = p.hold(None, 0), p.hold(None, 0)
    assert p.grow(a, 4)
    assert not p.grow(b, 5)
    assert p.free == 1
    assert p.grow(b, 4)
    assert p.free == 0


def test_a_prefix_is_held_once_and_found_by_the_second() -> None:
    p = pool()
    shareable = p.shareable(prompt_tokens=16, prefix_tokens=10)
    assert shareable == 2
    a = p.hold("system", shareable)
    assert (a.cached, p.grow(a, 16), p.free) == (0, True, 6)
    b = p.hold("system", shareable)
    assert (b.cached, p.grow(b, 16), p.free) == (8, True, 4)
    p.release(a, 16)
    assert p.free == 6
    p.release(b, 16)
    assert p.free == 10


def test_the_last_prompt_token_is_never_shared() -> None:
    assert pool().shareable(prompt_tokens=8, prefix_tokens=8) == 1


def test_a_kept_prefix_is_found_again_until_its_blocks_are_needed() -> None:
    p = pool(keep=True)
    a = p.hold("system", 2)
    assert p.grow(a, 8)
    p.release(a, 8)
    assert p.free == 10
    b = p.hold("system", 2)
    assert b.cached == 8
    p.release(b, 8)
    c = p.hold(None, 0)
    assert p.grow(c, 36)
    assert p.hold("system", 2).cached == 4


def test_blocks_that_were_taken_and_never_computed_are_not_found_again() -> None:
    p = pool(keep=True)
    a = p.hold("system", 4)
    assert p.grow(a, 16)
    p.release(a, 7)
    assert p.free == p.total
    assert p.hold("system", 4).cached == 4


def test_the_least_recently_held_prefix_goes_first() -> None:
    p = pool(keep=True)
    for name in ("old", "young"):
        holding = p.hold(name, 2)
        assert p.grow(holding, 8)
        p.release(holding, 8)
    assert p.grow(p.hold(None, 0), 32)
    assert (p.hold("young", 2).cached, p.hold("old", 2).cached) == (8, 0)


def test_a_prefix_that_is_longer_than_any_holder_needs_is_cut() -> None:
    p = pool()
    long, short = p.hold("system", 8), p.hold("system", 1)
    assert p.grow(long, 32)
    p.release(long, 32)
    assert p.free == 9
    assert p.fits(None, 0, 36)
    assert p.grow(short, 40)


def test_what_would_be_found_counts_as_held_when_asking_whether_a_request_fits() -> None:
    p = pool(keep=True)
    a = p.hold("system", 5)
    assert p.grow(a, 20)
    p.release(a, 20)
    assert p.grow(p.hold(None, 0), 16)
    assert p.free == 6
    assert p.fits("system", 5, 24)
    assert not p.fits("system", 5, 25)


def test_steps_that_fit_end_where_blocks_run_out() -> None:
    p = pool(16)
    a, b = p.hold(None, 0), p.hold(None, 0)
    assert p.grow(a, 4)
    assert p.grow(b, 5)
    # One block is free: a takes it in its first step; b needs one for its fourth.
    assert p.further_steps([4, 5], 100) == 3
    assert p.further_steps([4, 5], 2) == 2
