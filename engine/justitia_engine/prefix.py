"""How many blocks of a waiting prompt the engine's prefix cache has now, found with few questions about single blocks.

A hash covers all tokens before its block. vLLM frees a request's blocks from the last one on, and touches all blocks of
a prefix together. So the blocks of a prompt that are in the cache are its first ones, and how many they are is found by
halving: log2 of the prompt's blocks. The next search for the same request begins at what was found: two questions if
nothing has changed. The questions change neither what is in the cache nor what is evicted next.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

BlockHash = TypeVar("BlockHash")


class CachedPrefixes(Generic[BlockHash]):
    """`has` tells whether the cache has the block of that hash. One number is kept for each request that was asked for,
    until it is forgotten.
    """

    def __init__(self, has: Callable[[BlockHash], bool]) -> None:
        self._has = has
        self._found: dict[str, int] = {}

    def blocks(self, request: str, hashes: Sequence[BlockHash], most: int) -> int:
        """How many of a prompt's first `most` blocks are in the cache, from the first one on."""
        has, last = self._has, min(self._found.get(request, 0), most)
        if last and not has(hashes[last - 1]):
            there, beyond = 0, last - 1
        else:
            there, beyond, stride = last, most, 1
            while there < beyond:
                probe = min(there + stride, beyond)
                if not has(hashes[probe - 1]):
                    beyond = probe - 1
                    break
                there, stride = probe, 2 * stride
        while there < beyond:
            middle = (there + beyond + 1) // 2
            if has(hashes[middle - 1]):
                there = middle
            else:
                beyond = middle - 1
        self._found[request] = there
        return there

    def forget(self, request: str) -> None:
        """The request is over."""
        self._found.pop(request, None)
