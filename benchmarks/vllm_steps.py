"""What a step of vLLM's scheduler costs with our scheduler inside and without, in microseconds. JSON on the last line.

Run by the interpreter that has vLLM: `python vllm_steps.py MODEL STEPS LAYOUTS`, with the packages of `engine/`,
`channel/`, `scheduling/` and `vocabulary/` on PYTHONPATH.

A step is `schedule()` and `update_from_output()`; the model between them is left out,
every request is given a token. All schedulers have the same running requests, a seat for each, and as many waiting
ones that find none; they take turns of `TURN` steps, so that a machine whose speed drifts does not look like a
scheduler. Where objects happen to lie in memory makes one scheduler faster than its like: so each is made LAYOUTS
times, and makes its part of the steps each time.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from statistics import fmean
from typing import Any

import torch
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from justitia_channel.messages import Configure, Ticket
from justitia_engine.scheduler import JustitiaScheduler
from justitia_vocabulary.units import ApplicationId, RunId, TenantId

WAITING = (0, 1000)
RUNNING = (1, 16, 64, 256)
POLICIES = ("fcfs", "tiered-justitia", "vtc", "uniboost")
TURN = 20
BLOCK = 16
PROMPT = 32
TENANTS = 8
REQUESTS_PER_RUN = 5


def scheduler(kind: type[Scheduler], model: str, seats: int) -> Scheduler:
    """One with a seat for so many requests, and KV space for more than they need."""
    arguments = EngineArgs(
        model=model,
        load_format="dummy",
        dtype="float32",
        enforce_eager=True,
        max_model_len=4096,
        max_num_seqs=seats,
        max_num_batched_tokens=8192,
        scheduling_policy="priority",
        enable_prefix_caching=False,
        block_size=BLOCK,
    )
    config = arguments.create_engine_config()
    config.cache_config.num_gpu_blocks = blocks = 4096 * seats // BLOCK + 1000
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
    kv_cache = KVCacheConfig(blocks, [], [KVCacheGroupSpec(["layer"], spec)])
    return kind(config, kv_cache, StructuredOutputManager(config), BLOCK)


def fill(of: Scheduler, requests: int, policy: str, seed: int) -> None:
    """Requests of some tenants and runs; `policy` is told of them.

    They are made in a random order, so that whichever ones run lie as far from each other in memory: a step of
    neighbours is faster.
    """
    made: dict[int, Request] = {}
    for i in random.Random(seed).sample(range(requests), requests):
        parameters = SamplingParams(max_tokens=3900, ignore_eos=True)
        parameters.update_from_generation_config({}, 2)
        made[i] = Request(f"cmpl-{i:032x}-0-{i:08x}", [7] * PROMPT, parameters, None)
    for i in range(requests):
        key = f"{i:032x}"
        if isinstance(of, JustitiaScheduler):
            if not i:
                weights = {f"t{tenant}": 1.0 + tenant for tenant in range(TENANTS)}
                of.desk._link.inbox.append(Configure(1, policy, "engine-time", weights))
            tenant, run = f"t{i % TENANTS}", f"r{i // REQUESTS_PER_RUN}-{i % TENANTS}"
            told = Ticket(key, TenantId(tenant), ApplicationId(f"a{i % 10}"), RunId(run), run_cost=1e5)
            of.desk._link.inbox.append(told)
        of.add_request(made[i])


def steps(of: Scheduler, count: int) -> Iterator[float]:
    """Seconds of each of so many steps."""
    for _ in range(count):
        began = time.perf_counter()
        planned = of.schedule()
        between = time.perf_counter() - began
        names = list(planned.num_scheduled_tokens)
        produced = ModelRunnerOutput(names, {name: i for i, name in enumerate(names)}, [[9] for _ in names])
        began = time.perf_counter()
        of.update_from_output(planned, produced)
        yield between + time.perf_counter() - began


def measure(model: str, running: int, waiting: int, count: int, layouts: int) -> dict[str, Any]:
    """Mean of a step of each scheduler, for each of some layouts."""
    means = [_measure_layout(model, running, waiting, count // layouts, seed) for seed in range(layouts)]
    return {"running": running, "waiting": waiting, "means": means}


def _measure_layout(model: str, running: int, waiting: int, count: int, seed: int) -> dict[str, float]:
    """Microseconds by scheduler; each has its own requests."""
    names = random.Random(seed).sample(("stock", *POLICIES), 1 + len(POLICIES))
    contenders = {
        name: scheduler(AsyncScheduler if name == "stock" else JustitiaScheduler, model, running) for name in names
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for name, each in contenders.items():
        fill(each, running + waiting, name, seed)
        list(steps(each, 30))
        assert len(each.running) == running, (name, len(each.running))
    for _ in range(count // TURN):
        for name, each in contenders.items():
            times[name] += steps(each, TURN)
    for each in contenders.values():
        each.shutdown()
    return {name: 1e6 * _middle_mean(taken) for name, taken in times.items()}


def _middle_mean(taken: list[float]) -> float:
    """Without the hundredth that took longest: those in which the machine did something else."""
    return fmean(sorted(taken)[: -max(1, len(taken) // 100)])


def main() -> None:
    model, count, layouts = sys.argv[1], *map(int, sys.argv[2:])
    rows = [measure(model, running, waiting, count, layouts) for waiting in WAITING for running in RUNNING]
    print(json.dumps(rows))  # noqa: T201


if __name__ == "__main__":
    main()
