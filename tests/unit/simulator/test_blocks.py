"""Paged KV by hand: blocks of 4 tokens."""

from itertools import count

from justitia_simulator.blocks import BlockPool, HeldBlocks
from justitia_simulator.contexts import Origin

NUMBERS = count()


def pool(tokens: int = 40, *, keep: bool = False) -> BlockPool:
    return BlockPool(tokens, 4, keep=keep)


def alone() -> Origin:
    return Origin((), ("r", next(NUMBERS)))


def sharing(text: str, tokens: int) -> Origin:
    return Origin(((("", text), tokens),), ("r", next(NUMBERS)))


def hold(p: BlockPool, origin: Origin, prompt: int = 40) -> HeldBlocks:
    return p.hold(origin, prompt)


def test_a_request_holds_whole_blocks() -> None:
    p = pool()
    holding = hold(p, alone())
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
    a, b = hold(p, alone()), hold(p, alone())
    assert p.grow(a, 4)
    assert not p.grow(b, 5)
    assert p.free == 1
    assert p.grow(b, 4)
    assert p.free == 0


def test_a_prefix_is_held_once_and_found_by_the_second() -> None:
    p = pool()
    a = hold(p, sharing("system", 10))
    assert (a.cached, p.grow(a, 16), p.free) == (0, True, 6)
    b = hold(p, sharing("system", 10))
    assert (b.cached, p.grow(b, 16), p.free) == (8, True, 4)
    p.release(a, 16)
    assert p.free == 6
    p.release(b, 16)
    assert p.free == 10


def test_a_kept_prefix_is_found_again_until_its_blocks_are_needed() -> None:
    p = pool(keep=True)
    a = hold(p, sharing("system", 8))
    assert p.grow(a, 8)
    p.release(a, 8)
    assert p.free == 10
    b = hold(p, sharing("system", 8))
    assert b.cached == 8
    p.release(b, 8)
    c = hold(p, alone())
    assert p.grow(c, 36)
    assert p.cached(sharing("system", 8), 40) == 4


def test_blocks_that_were_taken_and_never_computed_are_not_found_again() -> None:
    p = pool(keep=True)
    a = hold(p, sharing("system", 16))
    assert p.grow(a, 16)
    p.release(a, 7)
    assert p.free == p.total
    assert hold(p, sharing("system", 16)).cached == 4


def test_the_least_recently_held_prefix_goes_first() -> None:
    p = pool(keep=True)
    for name in ("old", "young"):
        holding = hold(p, sharing(name, 8))
        assert p.grow(holding, 8)
        p.release(holding, 8)
    assert p.grow(hold(p, alone()), 32)
    assert (p.cached(sharing("young", 8), 40), p.cached(sharing("old", 8), 40)) == (8, 0)


def test_what_only_the_longest_holder_needed_is_free_when_it_has_gone() -> None:
    p = pool()
    long, short = hold(p, sharing("system", 32)), hold(p, sharing("system", 4))
    assert p.grow(long, 32)
    assert p.grow(short, 4)
    p.release(long, 32)
    assert p.free == 9
    assert p.fits(alone(), 35, 36)
    assert p.grow(short, 40)


def test_what_would_be_found_counts_as_held_when_asking_whether_a_request_fits() -> None:
    p = pool(keep=True)
    a = hold(p, sharing("system", 20))
    assert p.grow(a, 20)
    p.release(a, 20)
    assert p.grow(hold(p, alone()), 16)
    assert p.free == 6
    assert p.fits(sharing("system", 20), 23, 24)
    assert not p.fits(sharing("system", 20), 24, 25)


def test_a_turn_finds_the_turns_before_it_and_a_branch_what_was_there_before_it() -> None:
    p = pool(keep=True)
    system, main = ("", "system"), ("r", "main")
    first = hold(p, Origin(((system, 8),), main), 12)
    assert p.grow(first, 18)
    p.release(first, 17)
    # Four of its blocks are full; the second turn reads 22 tokens, of which it finds 16.
    second = hold(p, Origin(((system, 8),), main), 22)
    assert (second.cached, p.grow(second, 23), p.free) == (16, True, 4)
    branch = hold(p, Origin(((system, 8), (main, 12)), ("r", "side")), 20)
    assert (branch.cached, p.grow(branch, 21), p.free) == (12, True, 1)


def test_a_preempted_request_finds_its_own_blocks_again_if_they_stay() -> None:
    for keep, found in ((True, 12), (False, 0)):
        p = pool(keep=keep)
        mine = alone()
        a = hold(p, mine, 10)
        assert p.grow(a, 14)
        p.release(a, 13)
        assert p.hold(mine, 14).cached == found


def test_steps_that_fit_end_where_blocks_run_out() -> None:
    p = pool(16)
    a, b = hold(p, alone()), hold(p, alone())
    assert p.grow(a, 4)
    assert p.grow(b, 5)
    # One block is free: a takes it in its first step; b needs one for its fourth.
    assert p.further_steps([4, 5], 100) == 3
    assert p.further_steps([4, 5], 2) == 2
