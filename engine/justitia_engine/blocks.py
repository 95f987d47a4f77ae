"""vLLM's KV blocks: what the prefix cache has of a prompt, and blocks of sequences that have ended, held on to.

Only where all layers attend to the whole context: then the blocks of a prompt that the cache has are its first ones.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig
from vllm.v1.request import Request

from justitia_engine.keeping import Context
from justitia_engine.prefix import CachedPrefixes
from justitia_vocabulary.units import RequestId, Tokens


class EngineBlocks:
    """`requests` are those that the engine has, by name. `finds_prefixes`: how much of a prompt the cache has can be
    told, because it has the first blocks or none.
    """

    def __init__(
        self, manager: KVCacheManager, config: KVCacheConfig, block_size: Tokens, requests: Mapping[str, Request]
    ) -> None:
        groups = config.kv_cache_groups
        alike = len(groups) == 1 and isinstance(groups[0].kv_cache_spec, FullAttentionSpec)
        hashed = manager.enable_caching and manager.block_pool.hash_block_size == block_size
        self.finds_prefixes = alike and hashed
        self._manager = manager
        self._pool = pool = manager.block_pool
        self._size = block_size
        self._requests = requests
        self._cached: CachedPrefixes[Any] = CachedPrefixes(lambda block: bool(pool.get_cached_block(block, [0])))
        self._held: CachedPrefixes[Any] = CachedPrefixes(self._is_held)

    def in_cache(self, sequence: RequestId) -> Tokens:
        """How many tokens of a waiting sequence the prefix cache has. vLLM reads its last token again in any case."""
        return self._first(sequence, self._cached) * self._size

    def held(self, sequence: RequestId) -> int:
        """How many blocks that others hold a waiting sequence begins with. It needs no free ones for them."""
        return self._first(sequence, self._held) if self.finds_prefixes else 0

    def forget(self, sequence: str) -> None:
        """The sequence is over."""
        self._cached.forget(sequence)
        self._held.forget(sequence)

    # KV that is kept (`keeping.Contexts`).

    def written(self, sequence: RequestId) -> Context | None:
        request = self._requests.get(sequence)
        if request is None or not self._may_look_up(request):
            return None
        hashes, blocks = request.block_hashes, self._blocks(request)
        if not blocks:
            return None
        prompt = min(request.num_prompt_tokens // self._size, blocks)
        marks = tuple((number, hashes[number - 1]) for number in {blocks, prompt} if number)
        return Context(blocks * self._size, marks)

    def begins_with(self, sequence: RequestId, context: Context) -> bool:
        request = self._requests.get(sequence)
        hashes = request.block_hashes if request is not None else []
        return any(number <= len(hashes) and hashes[number - 1] == mark for number, mark in context.marks)

    def hold(self, sequence: RequestId, context: Context) -> Callable[[], None]:
        blocks = self._manager.get_blocks(sequence).blocks[0][: context.tokens // self._size]
        self._pool.touch(blocks)
        return partial(self._pool.free_blocks, blocks[::-1])

    # How.

    def _blocks(self, request: Request) -> int:
        """How many blocks of the request are full, and read whole, so that they can be found again."""
        held = self._manager.get_blocks(request.request_id).blocks[0]
        most: int = min(len(held), len(request.block_hashes), request.num_computed_tokens // self._size)
        while most and held[most - 1].block_hash is None:
            most -= 1
        return most

    def _first(self, sequence: RequestId, of: CachedPrefixes[Any]) -> int:
        request = self._requests.get(sequence)
        if request is None or not self._may_look_up(request):
            return 0
        hashes = request.block_hashes
        return of.blocks(sequence, hashes, min((request.num_tokens - 1) // self._size, len(hashes)))

    def _may_look_up(self, request: Request) -> bool:
        return bool(self._manager.prefix_cache_lookup_enabled(request))

    def _is_held(self, block: Any) -> bool:
        found = self._pool.get_cached_block(block, [0])
        return bool(found) and found[0].ref_cnt > 0
