"""The prefix cache of a paced engine: blocks of tokens that it has read or written."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from justitia_vocabulary.units import Tokens


class PacedCache:
    """Has room for so many blocks; those that were used longest ago go first. With no room it has nothing."""

    def __init__(self, blocks: int, block_size: Tokens) -> None:
        self._room = blocks
        self._size = block_size
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def find(self, prompt: Sequence[int]) -> Tokens:
        """How many tokens of the prompt are there, from the first one on. The last one is always read."""
        found = 0
        for block in self._names(prompt[:-1]):
            if block not in self._blocks:
                break
            self._blocks.move_to_end(block)
            found += self._size
        return found

    def keep(self, tokens: Sequence[int]) -> None:
        """These have been read or written."""
        for block in self._names(tokens):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._room:
            self._blocks.popitem(last=False)

    def _names(self, tokens: Sequence[int]) -> Iterator[int]:
        """A name for each full block and all that is before it."""
        name = 0
        for start in range(0, len(tokens) - self._size + 1, self._size):
            name = hash((name, tuple(tokens[start : start + self._size])))
            yield name
