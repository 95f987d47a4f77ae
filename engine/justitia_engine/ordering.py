"""The scheduler in the policy's order, which `scheduler.py` gives to vLLM.

A subclass of vLLM's own, under `--scheduling-policy priority`: its waiting queue is the policy's, and its hooks tell
the policy what happened. Each override calls `super()` once; `schedule()` is not copied. What a client put into
`priority` is overwritten: the number is how vLLM is told the victim of a preemption.

Environment: `JUSTITIA_SOCKET`, the sidecar's socket. Written against vLLM 0.32; `tests/engine/test_seam.py` pins what
is relied on.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import vllm
from vllm.logger import init_logger
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.engine import EngineCoreOutputs
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus

from justitia_channel.messages import SEQUENCES_PER_PROMPT, About
from justitia_engine.blocks import EngineBlocks
from justitia_engine.desk import Desk
from justitia_engine.explain import QueueView
from justitia_engine.host import OpenSequence, SequenceName
from justitia_engine.link import Link
from justitia_engine.queue import PolicyQueue
from justitia_engine.untold import Reading, StepDone
from justitia_vocabulary.units import RequestId, Seconds, Tokens
from justitia_vocabulary.waiting import WaitingReason

LAST, VICTIM = 0, 1
_ID = re.compile(r"(?:(\d+)_)?(?:chat)?cmpl-([0-9a-f]{32})(?:-(\d+))?-[0-9a-f]{8}")

logger = init_logger(f"vllm.{__name__}")  # vLLM formats and shows what is below its own name


@dataclass(slots=True)
class _Planned:
    """What a step is going to do. The scheduler's output is held so that its id stays its own."""

    output: SchedulerOutput
    readings: tuple[Reading, ...]
    began: Seconds


def sequence_name(request_id: str) -> SequenceName:
    """The sidecar's key and the number in an id of the engine's server; the whole id is the key of any other."""
    match = _ID.fullmatch(request_id)
    if match is None:
        return SequenceName(RequestId(request_id), request_id, 0)
    child, key, prompt = match.groups()
    return SequenceName(RequestId(request_id), key, int(prompt or 0) * SEQUENCES_PER_PROMPT + int(child or 0))


class JustitiaScheduler(AsyncScheduler):
    keeps_paused = True
    """Whether KV is kept for runs that pause between two requests, where that is possible."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        pool = self.kv_cache_manager.block_pool
        kv_tokens = (pool.num_gpu_blocks - 1) * self.block_size
        parallel = self.parallel_config.data_parallel_index
        most_held = min(kv_tokens, self.max_num_running_reqs * self.max_model_len)
        about = About(vllm.__version__, kv_tokens, self.block_size, parallel)
        self._link = Link(os.environ.get("JUSTITIA_SOCKET", "/run/justitia/engine.sock"), about, logger.warning)
        self._blocks = blocks = EngineBlocks(
            self.kv_cache_manager, self.kv_cache_config, self.block_size, self.requests
        )
        keeps = blocks.finds_prefixes and self.keeps_paused and self.connector is None
        self.desk = Desk(
            self._link,
            most_held,
            self._open_sequences,
            produced=self._produced,
            in_step=lambda: bool(self._planned),
            view=self._view,
            in_cache=blocks.in_cache if blocks.finds_prefixes else None,
            contexts=blocks if keeps else None,
            log=logger,
        )
        self.waiting = PolicyQueue(self.desk, self._has_blocks)
        self._most_prompt_blocks = -(-self.max_num_scheduled_tokens // self.block_size)
        self._processed: dict[str, Tokens] = {}
        self._planned: dict[int, _Planned] = {}
        self._over: list[tuple[Request, bool]] = []
        self._last_end: Seconds = 0.0
        self._link.start(self.desk.between_steps)

    # The order of a step.

    def add_request(self, request: Request) -> None:
        request.priority = LAST
        with self.desk.lock:
            super().add_request(request)

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        with self.desk.lock:
            heard = [r for r in self.waiting.arrived if not (_compiling(r) or r.is_finished())]
            self.desk.settle([(sequence_name(r.request_id), r.num_prompt_tokens) for r in heard])
            self.waiting.arrived = [r for r in self.waiting.arrived if _compiling(r)]
            self.waiting.order_may_differ()
            self._make_room()
            self._name_victim()
            return super().schedule(throttle_prefills)

    def _update_after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        tokens = scheduler_output.num_scheduled_tokens
        if tokens:
            reading = self.waiting.reading
            readings = tuple(self._reading(r, tokens[name]) for name, r in list(reading.items()) if name in tokens)
            self._planned[id(scheduler_output)] = _Planned(scheduler_output, readings, time.monotonic())
        super()._update_after_schedule(scheduler_output)

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> dict[int, EngineCoreOutputs]:
        with self.desk.lock:
            planned = self._planned.pop(id(scheduler_output), None)
            outputs = super().update_from_output(scheduler_output, model_runner_output)
            if planned is not None:
                self._account(planned)
            self._close()
            self.desk.step_is_over()
            return outputs

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: RequestStatus) -> list[Request]:
        with self.desk.lock:
            aborted = super().finish_requests(request_ids, finished_status)
            self._close()
            return aborted

    # What vLLM does with a request on its way.

    def _preempt_request(self, request: Request, timestamp: float, drop_stale_output: bool = False) -> None:
        request.priority = LAST
        name = request.request_id
        self._processed[name] = max(self._processed.get(name, 0), request.num_computed_tokens)
        self.waiting.reading.pop(name, None)
        super()._preempt_request(request, timestamp, drop_stale_output)
        self._name_victim()

    def _free_request(self, request: Request, delay_free_blocks: bool = False) -> tuple[Any, Any]:
        aborted = request.status in (RequestStatus.FINISHED_ABORTED, RequestStatus.FINISHED_ERROR)
        if not aborted:
            self.desk.ends(RequestId(request.request_id))
        self._over.append((request, not aborted))
        return super()._free_request(request, delay_free_blocks)

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        with self.desk.lock:
            self.desk.keep_nothing()
            return super().reset_prefix_cache(reset_running_requests, reset_connector)

    def shutdown(self) -> None:
        self._link.close()
        super().shutdown()

    # How.

    def _reading(self, request: Request, tokens: Tokens) -> Reading:
        """How many tokens a step reads for the first time of a prompt that has not been read whole, and how many it
        processes again after a preemption.
        """
        name, start = request.request_id, request.num_computed_tokens
        end, known = start + tokens, self._processed.get(request.request_id, 0)
        if end >= max(known, request.num_prompt_tokens):
            del self.waiting.reading[name]
        recomputed = max(0, min(end, known) - start)
        prefilled = max(0, min(end, request.num_prompt_tokens) - max(start, known))
        return Reading(RequestId(name), prefilled, recomputed)

    def _account(self, planned: _Planned) -> None:
        """The step lasted from when it was scheduled, or from the end of the one before."""
        now = time.monotonic()
        duration, self._last_end = now - max(planned.began, self._last_end), now
        output = planned.output
        held = sum(request.num_computed_tokens for request in self.running)
        sequences, tokens = len(output.num_scheduled_tokens), output.total_num_scheduled_tokens
        self.desk.stepped(StepDone(sequences, tokens, held, planned.readings, duration))

    def _produced(self, sequence: RequestId) -> Tokens:
        request = self.requests.get(sequence) or next(r for r, _ in self._over if r.request_id == sequence)
        return int(request.num_output_tokens)

    def _close(self) -> None:
        """Tell the desk which requests are over."""
        for request, finished in self._over:
            self._processed.pop(request.request_id, None)
            self.waiting.reading.pop(request.request_id, None)
            self._blocks.forget(request.request_id)
            self.desk.closed(RequestId(request.request_id), request.num_output_tokens, finished)
        self._over.clear()

    def _name_victim(self) -> None:
        """vLLM preempts the running request of the largest number, where those that run do not find their blocks."""
        if not self._may_run_short():
            return
        victim = self.desk.victim()
        for request in self.running:
            request.priority = VICTIM if request.request_id == victim else LAST

    def _may_run_short(self) -> bool:
        """Whether those that run might not find their blocks in the next step."""
        free = self.kv_cache_manager.block_pool.get_num_free_blocks()
        return free < len(self.running) + self._most_prompt_blocks and free < self._blocks_needed()

    def _blocks_needed(self) -> int:
        """The most blocks that a step can need: those up to each request's next token, less those it has."""
        size, ahead = self.block_size, self.num_lookahead_tokens
        ends = [r.num_tokens_with_spec + r.num_output_placeholders + ahead for r in self.running]
        return sum(-(-end // size) + -r.num_computed_tokens // size for end, r in zip(ends, self.running, strict=True))

    def _make_room(self) -> None:
        """KV that is kept goes to those that run, and to a head that does not fit where its runs rank behind that. Then
        the requests that the policy lets go are preempted for the head.
        """
        desk = self.desk
        while desk.keeps and self._may_run_short() and desk.makes_room(None):
            self.waiting.order_may_differ()
        while (desk.evicts or desk.keeps) and self.waiting and not self._fits(head := self.waiting.peek_request()):
            if desk.keeps and self._has_seat() and desk.makes_room(self._waits_for(head)):
                self.waiting.order_may_differ()
                continue
            loser = desk.gives_way() if desk.evicts else None
            request = None if loser is None else self.requests.get(loser)
            if request is None or request not in self.running:
                return
            self.running.remove(request)
            self._preempt_request(request, time.monotonic())
            desk.evicted()

    def _waits_for(self, head: Request) -> RequestId | None:
        """Nothing is waited for while nothing runs."""
        return RequestId(head.request_id) if self.running else None

    def _fits(self, request: Request) -> bool:
        """vLLM admits nothing that does not fit whole, less what of its prompt is held by others."""
        manager = self.kv_cache_manager
        missing = -(-(request.num_tokens + 1) // self.block_size) + manager.watermark_blocks
        missing -= manager.block_pool.get_num_free_blocks()
        return self._has_seat() and (missing <= 0 or missing <= self._blocks.held(RequestId(request.request_id)))

    def _has_seat(self) -> bool:
        return len(self.running) < self.max_num_active_reqs

    def _has_blocks(self, request: Request) -> bool:
        return any(self.kv_cache_manager.get_blocks(request.request_id).blocks)

    def _open_sequences(self) -> Iterator[OpenSequence]:
        """The open sequences that the desk has heard of."""
        unheard = {request.request_id for request in self.waiting.arrived}
        for request in self.requests.values():
            if request.request_id not in unheard:
                yield _open(request)

    def _view(self, limit: int) -> QueueView:
        """A step has told the policy of all that is queued, except requests whose grammar is being prepared."""
        no_space = bool(self.waiting) and self._has_seat() and not self._fits(self.waiting.peek_request())
        obstacle = WaitingReason.NO_KV_SPACE if no_space else WaitingReason.ENGINE_BUSY
        prepared = [_open(request) for request in self.waiting.arrived if _compiling(request)]
        if self.desk.host is not None:
            return QueueView(obstacle, prepared)
        waiting = (request for request in self.waiting if not _compiling(request))
        first = [_open(request) for request in islice(waiting, limit)]
        return QueueView(obstacle, prepared, first, len(self.waiting) - len(prepared) - len(first))


def _open(request: Request) -> OpenSequence:
    running = request.status is RequestStatus.RUNNING
    return OpenSequence(
        sequence_name(request.request_id), request.num_prompt_tokens, request.num_output_tokens, running
    )


def _compiling(request: Request) -> bool:
    """Its grammar is not ready: vLLM would pass it over."""
    grammar = request.structured_output_request
    blocked = request.status is RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    return blocked and (grammar is None or grammar.grammar is None)
