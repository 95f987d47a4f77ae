"""Whether our scheduler is made for the vLLM that loads it: its version, and the shape of what is relied on.

Asked when vLLM loads the scheduler, before anything of ours runs in it. The order in which vLLM calls is checked by
`tests/support/vllm_seam.py`, which reads its source.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import reduce
from typing import Any

VERSIONS = frozenset({(0, 32)})
"""Major and minor number of each vLLM that `tests/engine` passes with."""

_SCHEDULER = "vllm.v1.core.sched.scheduler:Scheduler"
_ASYNC_SCHEDULER = "vllm.v1.core.sched.async_scheduler:AsyncScheduler"

SIGNATURES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (f"{_SCHEDULER}.schedule", ("self", "throttle_prefills")),
    (f"{_SCHEDULER}.update_from_output", ("self", "scheduler_output", "model_runner_output")),
    (f"{_SCHEDULER}.add_request", ("self", "request")),
    (f"{_SCHEDULER}.finish_requests", ("self", "request_ids", "finished_status")),
    (f"{_SCHEDULER}._preempt_request", ("self", "request", "timestamp", "drop_stale_output")),
    (f"{_SCHEDULER}._free_request", ("self", "request", "delay_free_blocks")),
    (f"{_SCHEDULER}._update_after_schedule", ("self", "scheduler_output")),
    (f"{_ASYNC_SCHEDULER}._update_after_schedule", ("self", "scheduler_output")),
    (f"{_SCHEDULER}.shutdown", ("self",)),
    ("vllm.v1.core.kv_cache_manager:KVCacheManager.get_blocks", ("self", "request_id")),
    ("vllm.v1.core.kv_cache_manager:KVCacheManager.prefix_cache_lookup_enabled", ("self", "request")),
    ("vllm.v1.core.block_pool:BlockPool.get_cached_block", ("self", "block_hash", "kv_cache_group_ids")),
    ("vllm.v1.core.block_pool:BlockPool.get_num_free_blocks", ("self",)),
    ("vllm.v1.core.block_pool:BlockPool.touch", ("self", "blocks")),
    ("vllm.v1.core.block_pool:BlockPool.free_blocks", ("self", "ordered_blocks")),
    (f"{_SCHEDULER}.reset_prefix_cache", ("self", "reset_running_requests", "reset_connector")),
)
"""Parameters of what is overridden or called."""

MEMBERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "vllm.v1.request:Request",
        ("num_output_tokens", "num_tokens", "num_tokens_with_spec", "is_finished"),
    ),
    (
        "vllm.v1.request:RequestStatus",
        ("RUNNING", "FINISHED_ABORTED", "FINISHED_ERROR", "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"),
    ),
    ("vllm.v1.kv_cache_interface:__dict__", ("FullAttentionSpec",)),
    ("vllm.v1.metrics.stats:PrefillStats.__dataclass_fields__", ("num_cached_tokens",)),
    ("vllm.v1.core.kv_cache_manager:KVCacheBlocks.__dataclass_fields__", ("blocks",)),
    (
        "vllm.v1.core.sched.output:SchedulerOutput.__dataclass_fields__",
        ("num_scheduled_tokens", "total_num_scheduled_tokens"),
    ),
)
"""What classes must have, as attributes or among the keys of a table."""

QUEUE = "vllm.v1.core.sched.request_queue:RequestQueue.__abstractmethods__"
QUEUE_METHODS = frozenset(
    {
        "add_request",
        "pop_request",
        "peek_request",
        "prepend_request",
        "prepend_requests",
        "remove_request",
        "remove_requests",
        "__bool__",
        "__len__",
        "__iter__",
    }
)


def version_problem(version: str) -> str | None:
    """Why `version` is none that the scheduler is made for; None if it is one."""
    found = re.match(r"(\d+)\.(\d+)(?!\d)", version)
    if found is not None and (int(found[1]), int(found[2])) in VERSIONS:
        return None
    made_for = ", ".join(f"{major}.{minor}" for major, minor in sorted(VERSIONS))
    return f"vLLM {version} is none of the versions that the scheduler is made for: {made_for}"


def differences() -> Iterator[str]:
    """What of vLLM has another shape than expected."""
    for name, expected in SIGNATURES:
        try:
            found = tuple(inspect.signature(_named(name)).parameters)
        except (ImportError, AttributeError) as error:
            yield f"{name} is not there: {error!r}"
            continue
        if found != expected:
            yield f"{name} takes ({', '.join(found)}), not ({', '.join(expected)})"
    for name, members in MEMBERS:
        try:
            owner = _named(name)
        except (ImportError, AttributeError) as error:
            yield f"{name} is not there: {error!r}"
            continue
        for member in members:
            if not (member in owner if isinstance(owner, dict) else hasattr(owner, member)):
                yield f"{name} has no {member}"
    try:
        methods = frozenset(_named(QUEUE))
    except (ImportError, AttributeError) as error:
        yield f"{QUEUE} is not there: {error!r}"
        return
    if methods != QUEUE_METHODS:
        yield f"{QUEUE} is {sorted(methods)}, not {sorted(QUEUE_METHODS)}"


def problem(version: str) -> str | None:
    """Why our scheduler must not be used in this vLLM; None if it may."""
    return version_problem(version) or next(differences(), None)


def _named(name: str) -> Any:
    """The object at `module:path`. Raises ImportError and AttributeError."""
    module, _, path = name.partition(":")
    return reduce(getattr, path.split("."), importlib.import_module(module))
