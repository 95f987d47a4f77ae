"""Paged KV space: who holds how many blocks, which of them several share, and what the prefix cache still has.

A request holds ceil(tokens / block_size) blocks. Blocks have the content of a text (:mod:`.contexts`): block k of a
request belongs to the ancestor that has all of its tokens, else to the request's own text. Requests share the blocks of
texts that they have in common: the first to get there takes a block, the others find it filled.

A block that is full can be found again: at the beginning, a request finds the blocks of its prompt from the first one
on, up to the first that is not there, all but the one with the prompt's last token, which is always processed. Blocks
that nobody holds are free. With `keep` those that are full stay until they are needed, and go in the order in which
they were freed, those of one request from its end; blocks that are not full go first. That is vLLM's prefix cache
(`BlockPool.free_blocks`, `KVCacheManager.get_computed_blocks`) with two differences that no tokens depend on: who holds
a block that two requests fill at the same time, and that a request's own blocks are found by others only when it has
let go of them.

Whoever holds a block holds all before it, so of one text the blocks that are there are the first ones, and of those
that nobody holds the last ones were freed first. So a text is described by a few numbers, and the order of eviction by
extents: runs of blocks that were freed together. All operations cost O(extents touched + holders of the texts).

Invariant: blocks held + blocks that stay + unused ones = the pool.
"""

import sys
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from justitia_simulator.contexts import Origin, TextName
from justitia_vocabulary.units import Tokens

ENDLESS = sys.maxsize


@dataclass(slots=True, eq=False)
class _Text:
    """Its blocks are numbered from the root of its ancestors; its own begin at `start`.

    Those up to `end` are there, those up to `named` are full, those up to `held` are held by somebody.
    """

    name: TextName
    start: int
    end: int
    named: int
    held: int
    holders: set["HeldBlocks"] = field(default_factory=set)
    freed: "deque[_Extent]" = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _Extent:
    """Blocks of a text that nobody holds, `low` to `high` - 1, freed at one moment."""

    text: _Text
    low: int
    high: int


@dataclass(slots=True, eq=False)
class HeldBlocks:
    """What one request holds: the first `blocks` of its texts, each of which it needs up to a limit.

    Its blocks have `room` for so many tokens; `cached` tokens were there before it.
    """

    path: tuple[tuple[_Text, int], ...]
    cached: Tokens
    blocks: int
    room: Tokens
    filling: bool
    """Whether blocks that others could find are not full yet."""


class BlockPool:
    """The KV space of one engine."""

    def __init__(self, kv_tokens: Tokens, block_size: Tokens, *, keep: bool) -> None:
        self.block_size = block_size
        self.total = kv_tokens // block_size
        self._keep = keep
        self._unused = self.total
        self._idle = 0
        self._texts: dict[TextName, _Text] = {}
        self._freed: OrderedDict[_Extent, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks that can be taken, those that stay though nobody holds them among them."""
        return self._unused + self._idle

    def blocks(self, tokens: Tokens) -> int:
        """How many blocks that many tokens take."""
        return -(-tokens // self.block_size)

    def cached(self, origin: Origin, prompt_tokens: Tokens) -> Tokens:
        """How many tokens of such a prompt would be found. Changes nothing."""
        return self._found(origin, prompt_tokens)[0] * self.block_size

    def fits(self, origin: Origin, prompt_tokens: Tokens, tokens: Tokens) -> bool:
        """Whether a request that holds nothing could hold that many tokens, `prompt_tokens` of them to be read."""
        found, idle = self._found(origin, prompt_tokens)
        return self.blocks(tokens) - found <= self.free - idle

    def hold(self, origin: Origin, prompt_tokens: Tokens) -> HeldBlocks:
        """Begin to hold: nothing yet but what is found of the prompt."""
        found, _ = self._found(origin, prompt_tokens)
        path, start = [], 0
        for name, tokens in (*origin.ancestors, (origin.own, ENDLESS)):
            limit = tokens // self.block_size if tokens < ENDLESS else ENDLESS
            if limit > start:
                text = self._texts.get(name) or self._texts.setdefault(name, _Text(name, start, start, start, start))
                path.append((text, limit))
                start = limit
        filling = len(path) > 1 and found < path[-2][1]
        holding = HeldBlocks(tuple(path), found * self.block_size, found, found * self.block_size, filling)
        for text, limit in path:
            text.holders.add(holding)
            self._reach(text, min(limit, found))
        return holding

    def grow(self, holding: HeldBlocks, tokens: Tokens) -> bool:
        """Hold that many tokens, no fewer than before. False, and nothing changes, if there are not enough blocks."""
        if tokens > holding.room:
            blocks = self.blocks(tokens)
            reached = [(text, min(limit, blocks)) for text, limit in holding.path]
            if sum([depth - text.held for text, depth in reached if depth > text.held]) > self.free:
                return False
            for text, depth in reached:
                self._reach(text, depth)
            holding.blocks = blocks
            holding.room = blocks * self.block_size
        if holding.filling:
            full = tokens // self.block_size
            for text, limit in holding.path[:-1]:
                text.named = max(text.named, min(limit, full))
            holding.filling = full < holding.path[-2][1]
        return True

    def further_steps(self, held: Sequence[Tokens], limit: int) -> int:
        """How many steps, at most `limit`, requests that hold that much can all grow by a token each."""
        if len(held) * self.blocks(limit) <= self.free:
            return limit

        def needed(steps: int) -> int:
            return sum(self.blocks(tokens + steps) - self.blocks(tokens) for tokens in held)

        return bisect_right(range(1, limit + 1), self.free, key=needed)

    def release(self, holding: HeldBlocks, computed: Tokens) -> None:
        """Hold nothing any more. The KV of the first `computed` tokens is there and can be found again."""
        full = computed // self.block_size
        for text, limit in reversed(holding.path):
            text.holders.discard(holding)
            if holding.blocks > text.start:
                mine = max(text.start, min(limit, full))
                alone = not text.holders and text.end == text.held
                text.named = mine if alone else max(text.named, mine)
                self._let_go(text)
            if not text.holders and text.end == text.start:
                self._texts.pop(text.name, None)
        holding.path = ()

    def _found(self, origin: Origin, prompt_tokens: Tokens) -> tuple[int, int]:
        """How many blocks of the prompt are there, and how many of them nobody holds."""
        found = idle = 0
        last = (prompt_tokens - 1) // self.block_size
        for name, tokens in (*origin.ancestors, (origin.own, ENDLESS)):
            limit = min(tokens // self.block_size, last)
            if limit <= found:
                continue
            text = self._texts.get(name)
            if text is None:
                break
            reach = min(text.named, limit)
            idle += max(0, reach - text.held)
            found = max(found, reach)
            if reach < limit:
                break
        return found, idle

    def _reach(self, text: _Text, depth: int) -> None:
        """Somebody holds the text's blocks up to there: take back those that were freed, and new ones."""
        if depth <= text.held:
            return
        freed = text.freed
        while freed and freed[-1].low < depth:
            youngest = freed[-1]
            taken = min(youngest.high, depth) - youngest.low
            self._idle -= taken
            youngest.low += taken
            if youngest.low == youngest.high:
                freed.pop()
                del self._freed[youngest]
        text.held = depth
        if depth > text.end:
            self._take(depth - text.end)
            text.end = depth

    def _let_go(self, text: _Text) -> None:
        """A holder has gone: free what nobody holds now."""
        rest = max([min(_limit(h, text), h.blocks) for h in text.holders], default=text.start)
        rest = max(rest, text.start)
        if rest >= text.held:
            return
        stays = max(min(text.named, text.held), rest) if self._keep else rest
        if stays < text.held:
            # They are the text's last blocks: what is deeper would have been full, and so would they.
            self._unused += text.held - stays
            text.end = stays
            text.named = min(text.named, stays)
        if stays > rest:
            extent = _Extent(text, rest, stays)
            text.freed.append(extent)
            self._freed[extent] = None
            self._idle += stays - rest
        text.held = rest

    def _take(self, blocks: int) -> None:
        while self._unused < blocks:
            oldest = next(iter(self._freed))
            text = oldest.text
            taken = min(blocks - self._unused, oldest.high - oldest.low)
            oldest.high -= taken
            text.end = text.named = oldest.high
            self._idle -= taken
            self._unused += taken
            if oldest.low == oldest.high:
                del self._freed[oldest]
                text.freed.popleft()
                if not text.holders and text.end == text.start:
                    self._texts.pop(text.name, None)
        self._unused -= blocks


def _limit(holding: HeldBlocks, text: _Text) -> int:
    return next(limit for each, limit in holding.path if each is text)
