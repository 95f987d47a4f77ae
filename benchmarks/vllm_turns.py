"""Tokens a second of a real engine that always has more to do than it can, with our scheduler inside and without.

Run by the interpreter that has vLLM: `python vllm_turns.py MODEL BLOCKS ROUNDS SOCKETS`, with the packages of
`engine/`, `channel/`, `scheduling/` and `vocabulary/` on PYTHONPATH.

SOCKETS is a folder where `POLICY.sock` is listened at for each of our policies. A line
of JSON for each round: by scheduler, tokens a second, and seconds of a step in the model and outside.

One process, one model: two processes of the same engine differ by more than any scheduler does. Each turn begins with
a new scheduler and as many requests as there are clients, and each request that ends is followed by another.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.engine.core import EngineCore
from vllm.v1.executor.abstract import Executor
from vllm.v1.request import Request, RequestStatus

from justitia_engine.scheduler import JustitiaScheduler

CLIENTS = 128
SEATS = 64
BLOCK = 32
PROMPT, OUTPUT = 60, 60
POLICIES = ("fcfs", "tiered-justitia")
SETTLE, TURN = 0.3, 1.0
"""Seconds of a turn: before it counts, and those that count."""
PATIENCE = 10.0

T = TypeVar("T")


class Turns:
    """Gives each of some schedulers the engine for a while."""

    def __init__(self, model: str, blocks: int, sockets: Path) -> None:
        arguments = EngineArgs(
            model=model,
            load_format="dummy",
            dtype="float32",
            enforce_eager=True,
            max_model_len=640,
            max_num_seqs=SEATS,
            max_num_batched_tokens=2048,
            scheduling_policy="priority",
            block_size=BLOCK,
            num_gpu_blocks_override=blocks,
            async_scheduling=True,
        )
        self._config = arguments.create_engine_config()
        self._core = EngineCore(self._config, Executor.get_class(self._config), log_stats=True)
        self._model = self._core.model_executor.execute_model, self._core.model_executor.sample_tokens
        self._sockets = sockets
        self._asked = 0

    def take(self, name: str) -> dict[str, float]:
        """Whoever schedules by this name, while it is counted."""
        first = self._core.scheduler
        kind = JustitiaScheduler if name in POLICIES else AsyncScheduler
        os.environ["JUSTITIA_SOCKET"] = str(self._sockets / f"{name}.sock")
        manager = self._core.structured_output_manager
        scheduler = kind(self._config, first.kv_cache_config, manager, first.block_size, log_stats=True)
        self._core.scheduler = scheduler
        if isinstance(scheduler, JustitiaScheduler):
            _wait_for_tickets(scheduler)
        self._asked = 0
        for _ in range(CLIENTS):
            self._ask()
        self._serve(SETTLE)
        speed = self._serve(TURN)
        scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)
        self._core.step_fn()
        scheduler.shutdown()
        return speed

    def _serve(self, seconds: float) -> dict[str, float]:
        executor = self._core.model_executor
        model = 0.0

        def timed(call: Callable[..., T]) -> Callable[..., T]:
            def wrapped(*args: Any, **kwargs: Any) -> T:
                nonlocal model
                began = time.perf_counter()
                try:
                    return call(*args, **kwargs)
                finally:
                    model += time.perf_counter() - began

            return wrapped

        executor.execute_model, executor.sample_tokens = map(timed, self._model)
        began, tokens, steps = time.perf_counter(), 0, 0
        while time.perf_counter() < began + seconds:
            outputs, _ = self._core.step_fn()
            steps += 1
            for each in (outputs or {}).values():
                for output in each.outputs:
                    tokens += len(output.new_token_ids)
                    if output.finish_reason is not None:
                        self._ask()
        took = time.perf_counter() - began
        return {"tokensPerSecond": tokens / took, "model": model / steps, "outside": (took - model) / steps}

    def _ask(self) -> None:
        number, self._asked = self._asked, self._asked + 1
        parameters = SamplingParams(max_tokens=OUTPUT, ignore_eos=True)
        parameters.update_from_generation_config({}, 2)
        prompt = random.Random(number).choices(range(3, 400), k=PROMPT)
        name = f"cmpl-{number:032x}-0-{number:08x}"
        self._core.scheduler.add_request(
            Request(name, prompt, parameters, None, block_hasher=self._core.request_block_hasher)
        )


def _wait_for_tickets(scheduler: JustitiaScheduler) -> None:
    """Those of the first requests and of those that follow them; from then on they are sent as requests begin."""
    until = time.monotonic() + PATIENCE
    while scheduler.desk.host.counters.tickets < 2 * CLIENTS:
        if time.monotonic() > until:
            raise TimeoutError("no tickets came")
        time.sleep(0.01)


def main() -> None:
    model, blocks, rounds, sockets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    turns = Turns(model, blocks, sockets)
    contenders = ("stock", *POLICIES)
    for number in range(rounds + 1):
        found = {name: turns.take(name) for name in random.Random(number).sample(contenders, len(contenders))}
        if number:
            print(json.dumps(found), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
