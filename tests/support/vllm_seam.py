"""What `justitia_engine` relies on in vLLM, as checks. Run by the interpreter that has vLLM; prints what is not so.

Each line: what was expected, where it is used here. A change of vLLM that breaks one of these breaks the scheduler,
though everything may still import.
"""

import inspect
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import vllm
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager, SingleTypeKVCacheManager
from vllm.v1.engine.core import EngineCore
from vllm.v1.request import Request

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine"))  # the interpreter may be a bare vLLM's
from justitia_engine.supported import differences

SCHEDULER = "engine/justitia_engine/ordering.py"
QUEUE = "engine/justitia_engine/queue.py"

Check = tuple[str, str, Callable[[], bool]]


def source(of: Callable[..., Any]) -> str:
    return inspect.getsource(of)


def in_order(text: str, *parts: str) -> bool:
    """Whether the parts occur one after the other."""
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def shape() -> Iterable[Check]:
    """What the engine checks by itself whenever it starts."""
    for found in differences():
        yield f"the shape in supported.py; {found}", SCHEDULER, lambda: False


def attributes() -> Iterable[Check]:
    of_scheduler = (
        "self.waiting =",
        "self.kv_holding_waiting =",
        "self.deferred_waiting: set",
        "self.running: list",
        "self.requests: dict",
        "self.max_num_running_reqs =",
        "self.max_num_active_reqs =",
        "self.max_model_len =",
        "self.max_num_scheduled_tokens =",
        "self.block_size =",
        "self.kv_cache_manager =",
        "self.num_lookahead_tokens =",
        "self.kv_cache_config =",
        "self.connector =",
    )
    for attribute in of_scheduler:
        yield f"Scheduler has {attribute}", SCHEDULER, lambda a=attribute: a in source(Scheduler.__init__)  # type: ignore[misc]
    of_request = (
        "request_id",
        "priority",
        "status",
        "num_prompt_tokens",
        "num_computed_tokens",
        "prefill_stats",
        "num_output_placeholders",
        "block_hashes",
    )
    for name in of_request:
        yield f"Request has {name}", SCHEDULER, lambda n=name: f"self.{n}" in source(Request.__init__)  # type: ignore[misc]
    yield (
        "the manager has watermark_blocks, and admits what leaves them free",
        SCHEDULER,
        lambda: (
            "self.watermark_blocks =" in source(KVCacheManager.__init__)
            and "num_blocks_to_allocate + watermark_blocks" in source(KVCacheManager.allocate_slots)
        ),
    )
    yield (
        "the pool has a block that nobody gets",
        SCHEDULER,
        lambda: "self.num_gpu_blocks - 1" in source(BlockPool.get_usage),
    )


def order_of_calls() -> Iterable[Check]:
    schedule = source(Scheduler.schedule)
    yield (
        "schedule() serves kv_holding_waiting, then waiting; it peeks, allocates, pops and appends to running",
        QUEUE,
        lambda: in_order(
            schedule,
            "request_queue = self.kv_holding_waiting",
            "request_queue = self.waiting",
            "request_queue.peek_request()",
            "self.kv_cache_manager.allocate_slots(",
            "request = request_queue.pop_request()",
            "self.running.append(request)",
        ),
    )
    yield (
        "schedule() pops what it passes over, marks it deferred, and puts it back after the scan",
        QUEUE,
        lambda: in_order(
            schedule,
            "def skip_request(",
            "from_queue.pop_request()",
            "self.deferred_waiting.add(",
            "self.waiting.prepend_requests(step_skipped_waiting)",
        ),
    )
    yield (
        "a head that gets no blocks ends the scan",
        QUEUE,
        lambda: in_order(schedule, "full_sequence_must_fit=", "if new_blocks is None:", "break"),
    )
    yield (
        "under the priority policy the victim is the running request of the largest (priority, arrival)",
        SCHEDULER,
        lambda: in_order(
            schedule,
            "SchedulingPolicy.PRIORITY",
            "max(",
            "self.running",
            "(r.priority, r.arrival_time)",
            "_preempt_request(",
        ),
    )
    yield (
        "schedule() ends with _update_after_schedule, before which num_computed_tokens is what the step began with",
        SCHEDULER,
        lambda: (
            in_order(schedule, "SchedulerOutput(", "self._update_after_schedule(scheduler_output)", "return")
            and "num_computed_tokens +=" in source(Scheduler._update_after_schedule)
        ),
    )
    preempt = source(Scheduler._preempt_request)
    yield (
        "_preempt_request() leaves the request in waiting, with nothing computed",
        QUEUE,
        lambda: in_order(preempt, "request.num_computed_tokens = 0", "self.waiting.prepend_request(request)"),
    )
    computed, cached, hit = map(
        source,
        (KVCacheManager.get_computed_blocks, BlockPool.get_cached_block, FullAttentionManager.find_longest_cache_hit),
    )
    yield (
        "get_computed_blocks() finds the first full blocks of all tokens but the last, by the request's hashes",
        SCHEDULER,
        lambda: (
            in_order(computed, "prefix_cache_lookup_enabled", "request.num_tokens - 1", "request.block_hashes")
            and in_order(hit, "max_length // block_size", "get_cached_block(block_hash", "if not cached_block", "break")
        ),
    )
    yield (
        "get_cached_block() changes nothing",
        SCHEDULER,
        lambda: in_order(cached, "get_one_block(") and not any(c in cached for c in ("touch", "self.free", "metrics")),
    )
    yield (
        "a request's blocks are freed from the last one on, so of a prompt the first ones stay longest",
        SCHEDULER,
        lambda: "reversed(" in source(SingleTypeKVCacheManager.free),
    )
    update = source(Scheduler.update_from_output)
    yield (
        "update_from_output() appends the tokens of a request before it frees it",
        SCHEDULER,
        lambda: in_order(update, "self._update_request_with_output(", "self._free_request(request)"),
    )
    free = source(Scheduler._free_request)
    yield (
        "_free_request() frees a request's blocks before it is forgotten, and they may be shared with others",
        SCHEDULER,
        lambda: (
            in_order(free, "self._free_blocks(request)")
            and in_order(source(Scheduler._free_blocks), "_free_request_blocks(request)", "del self.requests[")
            and "block.ref_cnt -= 1" in source(BlockPool.free_blocks)
            and "block.ref_cnt += 1" in source(BlockPool.touch)
        ),
    )
    yield (
        "reset_prefix_cache() needs all blocks to be free",
        SCHEDULER,
        lambda: in_order(source(BlockPool.reset_prefix_cache), "if num_used_blocks != 1", "return False"),
    )
    finish = source(Scheduler.finish_requests)
    yield (
        "finish_requests() removes what waits from the queue, then frees each",
        QUEUE,
        lambda: in_order(finish, "self.waiting.remove_requests(", "self._free_request("),
    )
    step = source(EngineCore.step)
    yield (
        "a step schedules, executes, aborts what was given up, and updates",
        SCHEDULER,
        lambda: in_order(
            step, "scheduler.schedule(", "execute_model(", "_process_aborts_queue()", "scheduler.update_from_output("
        ),
    )
    yield (
        "add_request() puts a new request into the queue before it is known",
        SCHEDULER,
        lambda: in_order(source(Scheduler.add_request), "self._enqueue_waiting_request(request)", "self.requests["),
    )


def main() -> int:
    broken = []
    for what, where, holds in (*shape(), *attributes(), *order_of_calls()):
        try:
            problem = "" if holds() else "it is not so"
        except Exception as error:
            problem = repr(error)
        if problem:
            broken.append(f"vLLM {vllm.__version__}: expected: {what}. {problem}. Used in {where}")
    print("\n".join(broken))  # noqa: T201
    return len(broken)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
