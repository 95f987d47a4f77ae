"""Paged KV: which request holds how many blocks, and which blocks several share. Blocks of `block_size` tokens.

A request holds ceil(tokens / block_size) blocks. Requests with the same prefix id share the full blocks of their common
prompt part, all but a prompt's last token, which is always processed: the first to get there takes a shared block, the
others find it filled. A prefix is as long as its longest holder needs. Blocks of a prefix that nobody holds are free;
with `keep`, their content stays until the blocks are needed: the least recently held prefix gives first, from its end.

Invariant: own blocks of the requests + blocks of the prefixes + free ones = the pool.
"""

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from justitia_vocabulary.units import Tokens


@dataclass(slots=True, eq=False)
class _Prefix:
    """`blocks` filled. `holders` counts the requests that share it, by how many of its blocks they can share."""

    id: str
    blocks: int = 0
    holders: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True, eq=False)
class HeldBlocks:
    """What one request holds. Its first `shareable` blocks are the prefix's; `cached` tokens were there before it.

    Its blocks have `room` for so many tokens.
    """

    prefix: _Prefix | None
    shareable: int
    cached: Tokens
    own: int = 0
    room: Tokens = 0


class BlockPool:
    """The KV space of one engine."""

    def __init__(self, kv_tokens: Tokens, block_size: Tokens, *, keep: bool) -> None:
        self.block_size = block_size
        self.total = kv_tokens // block_size
        self._keep = keep
        self._unused = self.total
        self._idle = 0
        self._prefixes: dict[str, _Prefix] = {}
        self._kept: OrderedDict[str, _Prefix] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks that can be taken, those of prefixes that nobody holds among them."""
        return self._unused + self._idle

    def blocks(self, tokens: Tokens) -> int:
        """How many blocks that many tokens take."""
        return -(-tokens // self.block_size)

    def shareable(self, prompt_tokens: Tokens, prefix_tokens: Tokens) -> int:
        """How many blocks of a prompt can be shared."""
        return min(prefix_tokens, prompt_tokens - 1) // self.block_size

    def fits(self, prefix_id: str | None, shareable: int, tokens: Tokens) -> bool:
        """Whether a request that holds nothing could hold that many tokens."""
        needed = self.blocks(tokens)
        prefix = self._prefixes.get(prefix_id) if prefix_id is not None else None
        if prefix is None:
            return needed <= self.free
        needed -= min(needed, shareable, prefix.blocks)
        return needed <= self.free - (0 if prefix.holders else min(shareable, prefix.blocks))

    def hold(self, prefix_id: str | None, shareable: int) -> HeldBlocks:
        """Begin to hold: nothing yet but the part of the prefix that is there."""
        if prefix_id is None or not shareable:
            return HeldBlocks(None, 0, 0)
        prefix = self._prefixes.setdefault(prefix_id, _Prefix(prefix_id))
        if not prefix.holders:
            self._kept.pop(prefix_id, None)
            self._idle -= prefix.blocks
            self._trim(prefix, shareable)
        prefix.holders[shareable] += 1
        return HeldBlocks(prefix, shareable, min(shareable, prefix.blocks) * self.block_size)

    def grow(self, holding: HeldBlocks, tokens: Tokens) -> bool:
        """Hold that many tokens, no fewer than before. False, and nothing changes, if there are not enough blocks."""
        if tokens <= holding.room:
            return True
        blocks = self.blocks(tokens)
        prefix, shared, extension = holding.prefix, 0, 0
        if prefix is not None:
            shared = min(blocks, holding.shareable)
            extension = max(0, shared - prefix.blocks)
        needed = blocks - shared - holding.own + extension
        if needed > self.free:
            return False
        if needed > 0:
            self._take(needed)
            holding.own = blocks - shared
            if prefix is not None:
                prefix.blocks += extension
        holding.room = blocks * self.block_size
        return True

    def further_steps(self, held: Sequence[Tokens], limit: int) -> int:
        """How many steps, at most `limit`, requests that hold that much can all grow by a token each."""
        if len(held) * self.blocks(limit) <= self.free:
            return limit

        def needed(steps: int) -> int:
            return sum(self.blocks(tokens + steps) - self.blocks(tokens) for tokens in held)

        return bisect_right(range(1, limit + 1), self.free, key=needed)

    def release(self, holding: HeldBlocks, computed: Tokens) -> None:
        """Hold nothing any more. If nobody else holds the prefix, only its `computed` tokens can be found again."""
        self._unused += holding.own
        holding.own = 0
        prefix, holding.prefix = holding.prefix, None
        if prefix is None:
            return
        prefix.holders[holding.shareable] -= 1
        if not prefix.holders[holding.shareable]:
            del prefix.holders[holding.shareable]
        if prefix.holders:
            self._trim(prefix, max(prefix.holders))
            return
        self._trim(prefix, computed // self.block_size)
        if self._keep and prefix.blocks:
            self._kept[prefix.id] = prefix
            self._idle += prefix.blocks
        else:
            self._unused += prefix.blocks
            del self._prefixes[prefix.id]

    def _trim(self, prefix: _Prefix, blocks: int) -> None:
        """Free what is longer than any holder needs: a request that runs alone must always fit."""
        surplus = max(0, prefix.blocks - blocks)
        prefix.blocks -= surplus
        self._unused += surplus

    def _take(self, blocks: int) -> None:
        while self._unused < blocks:
            oldest = next(iter(self._kept.values()))
            taken = min(blocks - self._unused, oldest.blocks)
            oldest.blocks -= taken
            self._idle -= taken
            self._unused += taken
            if not oldest.blocks:
                del self._kept[oldest.id], self._prefixes[oldest.id]
        self._unused -= blocks
