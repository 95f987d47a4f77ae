"""The simulator's KV space finds, keeps and evicts what a cache of single blocks does that knows only tokens.

The oracle is vLLM's prefix cache at its plainest: a block is found by all tokens up to its end, free blocks stand in
one row, blocks of a request join it from its last one on, at the back if they are full, else at the front.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_simulator import blocks
from justitia_simulator.blocks import BlockPool, HeldBlocks
from justitia_simulator.contexts import Contexts, Origin
from justitia_simulator.workload import WorkloadRequest
from justitia_vocabulary.units import RunId

SIZE = 4


class PlainCache:
    """Blocks one by one."""

    def __init__(self, total: int) -> None:
        self.row: deque[int] = deque(range(total))
        self.content: dict[int, tuple[int, ...]] = {}
        self.users: Counter[int] = Counter()

    def found(self, prompt: Sequence[int]) -> list[int]:
        by_content = {content: block for block, content in self.content.items()}
        hits = []
        for k in range((len(prompt) - 1) // SIZE):
            block = by_content.get(tuple(prompt[: (k + 1) * SIZE]))
            if block is None:
                break
            hits.append(block)
        return hits

    def begin(self, prompt: Sequence[int]) -> tuple[list[int], int] | None:
        """Blocks for the prompt and the token that it yields, and how many were found; None if they do not fit."""
        held = self.found(prompt)
        hits = len(held)
        needed = -(-(len(prompt) + 1) // SIZE) - hits
        if needed > len(self.row) - sum(not self.users[b] for b in held):
            return None
        for block in held:
            if not self.users[block]:
                self.row.remove(block)
            self.users[block] += 1
        for _ in range(needed):
            assert self.more(held)
        self.fill(held, prompt)
        return held, hits

    def more(self, held: list[int]) -> bool:
        if not self.row:
            return False
        block = self.row.popleft()
        self.content.pop(block, None)
        self.users[block] = 1
        held.append(block)
        return True

    def fill(self, held: list[int], tokens: Sequence[int]) -> None:
        for k in range(len(tokens) // SIZE):
            self.content.setdefault(held[k], tuple(tokens[: (k + 1) * SIZE]))

    def end(self, held: list[int], written: Sequence[int]) -> None:
        self.fill(held, written)
        for block in reversed(held):
            self.users[block] -= 1
            if not self.users[block]:
                if block in self.content:
                    self.row.append(block)
                else:
                    self.row.appendleft(block)


@dataclass
class Asked:
    """A request: its tokens, the last of which is not written while it runs, and what it holds on both sides."""

    run: int
    work: WorkloadRequest
    origin: Origin
    tokens: list[int]
    mine: HeldBlocks | None = None
    theirs: list[int] = field(default_factory=list)


class Both:
    """The pool and the oracle side by side, driven by numbers."""

    def __init__(self, total: int) -> None:
        self.pool = BlockPool(total * SIZE, SIZE, keep=True)
        self.oracle = PlainCache(total)
        self.new = count()
        self.shared = {name: [next(self.new) for _ in range(30)] for name in ("x", "y")}
        self.runs = [Contexts(RunId(f"r{i}")) for i in range(3)]
        self.texts: list[dict[str, list[int]]] = [{}, {}, {}]
        self.open: list[Asked] = []
        self.hits = 0

    def act(self, kind: int, a: int, b: int, c: int) -> None:
        running = [r for r in self.open if r.mine is not None]
        paused = [r for r in self.open if r.mine is None]
        if kind == 0:
            self.ask(a, b, c)
        elif kind == 1 and running:
            self.grow(running[a % len(running)], 1 + b % 9)
        elif kind == 2 and running:
            self.finish(running[a % len(running)])
        elif kind == 3 and running:
            self.pause(running[a % len(running)])
        elif kind == 4 and paused:
            self.begin(paused[a % len(paused)])
        assert self.pool.free == len(self.oracle.row)

    def ask(self, a: int, b: int, c: int) -> None:
        """Go on with a text, branch off from one, or begin a new one."""
        run = a % 3
        if any(r.run == run for r in self.open):
            return
        mine = self.texts[run]
        names = [*self.shared, *mine]
        prefix = names[b % len(names)]
        source = mine.get(prefix) or self.shared[prefix]
        goes_on = prefix in mine and c % 2 == 0
        taken = len(source) if goes_on else c % (len(source) + 1)
        context = prefix if goes_on else f"c{next(self.new)}"
        prompt = source[:taken] + [next(self.new) for _ in range(1 + (a + c) % 11)]
        work = WorkloadRequest(len(prompt), 1, prefix, taken, {}, context)
        asked = Asked(run, work, self.peek(run, work), prompt)
        self.begin(asked)
        if asked.mine is not None:
            self.open.append(asked)

    def peek(self, run: int, work: WorkloadRequest) -> Origin:
        """The request's origin; the run hears of it with its output when it finishes."""
        contexts = self.runs[run]
        return Contexts(contexts.run, dict(contexts._written), set(contexts._shared)).follow([work])[0]

    def begin(self, asked: Asked) -> None:
        prompt = asked.tokens
        fits = self.pool.fits(asked.origin, len(prompt), len(prompt) + 1)
        assert self.pool.cached(asked.origin, len(prompt)) == len(self.oracle.found(prompt)) * SIZE
        begun = self.oracle.begin(prompt)
        assert fits is (begun is not None)
        if begun is None:
            return
        asked.theirs, hits = begun
        asked.tokens = [*prompt, next(self.new)]
        asked.mine = self.pool.hold(asked.origin, len(prompt))
        assert asked.mine.cached == hits * SIZE
        assert self.pool.grow(asked.mine, len(prompt) + 1)
        self.hits += hits

    def grow(self, asked: Asked, tokens: int) -> None:
        for _ in range(tokens):
            wanted = len(asked.tokens) + 1
            fits = wanted <= len(asked.theirs) * SIZE or self.oracle.more(asked.theirs)
            assert asked.mine is not None
            assert self.pool.grow(asked.mine, wanted) is fits
            if not fits:
                return
            asked.tokens.append(next(self.new))

    def pause(self, asked: Asked) -> None:
        assert asked.mine is not None
        written = asked.tokens[:-1]
        self.pool.release(asked.mine, len(written))
        self.oracle.end(asked.theirs, written)
        asked.mine = None

    def finish(self, asked: Asked) -> None:
        self.pause(asked)
        self.open.remove(asked)
        work = asked.work
        assert work.context is not None
        whole = WorkloadRequest(
            work.prompt_tokens,
            len(asked.tokens) - work.prompt_tokens,
            work.prefix,
            work.prefix_tokens,
            {},
            work.context,
        )
        self.runs[asked.run].follow([whole])
        self.texts[asked.run][work.context] = asked.tokens


ACTS = st.lists(st.tuples(st.integers(0, 4), *[st.integers(0, 1000)] * 3), min_size=20, max_size=120)


@given(total=st.integers(4, 40), acts=ACTS)
def test_the_pool_finds_and_frees_what_a_plain_cache_of_blocks_does(total: int, acts: list[tuple[int, ...]]) -> None:
    both = Both(total)
    for act in acts:
        both.act(*act)
    for asked in list(both.open):
        if asked.mine is not None:
            both.finish(asked)
    assert both.pool.free == total == len(both.oracle.row)


@pytest.mark.parametrize("fault", ["first blocks first", "the youngest first", "nothing is freed in order"])
def test_the_oracle_sees_another_order_of_eviction(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten long histories in a small space: some of them must tell the orders apart."""
    if fault == "first blocks first":
        monkeypatch.setattr(PlainCache, "end", _forwards)
    elif fault == "the youngest first":
        monkeypatch.setattr(PlainCache, "more", _from_the_back)
    else:
        monkeypatch.setattr(blocks, "OrderedDict", _Reversed)
    with pytest.raises(AssertionError):
        ten_histories()


def ten_histories() -> None:
    for seed in range(10):
        both = Both(16)
        for i in range(400):
            both.act((i * 7 + seed) % 5, i * 13 + seed, i * 17 + seed * 3, i * 29 + seed * 5)


def test_the_ten_histories_agree_with_the_order_as_it_is() -> None:
    ten_histories()


def _forwards(self: PlainCache, held: list[int], written: Sequence[int]) -> None:
    self.fill(held, written)
    for block in held:
        self.users[block] -= 1
        if not self.users[block]:
            (self.row.append if block in self.content else self.row.appendleft)(block)


def _from_the_back(self: PlainCache, held: list[int]) -> bool:
    if not self.row:
        return False
    block = self.row.pop()
    self.content.pop(block, None)
    self.users[block] = 1
    held.append(block)
    return True


class _Reversed(dict[object, None]):
    """A row whose first is its last."""

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(list(reversed(list(self.keys()))))


def test_histories_reach_hits_and_evictions() -> None:
    both = Both(24)
    for i in range(600):
        both.act((0, 1, 2, 0, 3, 4)[i % 6], i * 13, i * 17, i * 29)
    assert both.hits > 50
