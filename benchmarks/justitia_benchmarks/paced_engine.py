"""An engine that computes nothing and takes its time: it stands in for vLLM where more engines are wanted than a
machine can run.

`python -m justitia_benchmarks.paced_engine --port P --socket S` speaks vLLM's HTTP API as far as the sidecar asks, and
has the real plug-in's desk inside, which orders its queue. A step takes as long as a timing says, and produces a token
for each sequence that has been read. A sequence is admitted if there is KV space for all of its tokens, so none is ever
preempted. With `--prefix-cache` it finds again what it has read or written, as far as its KV space goes; all that it
writes are tokens `WRITTEN`.
"""

import asyncio
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from aiohttp import web

from justitia_benchmarks.paced_cache import PacedCache
from justitia_channel.messages import About
from justitia_engine.desk import Desk
from justitia_engine.explain import QueueView
from justitia_engine.host import OpenSequence, SequenceName
from justitia_engine.link import Link
from justitia_engine.untold import Reading, StepDone
from justitia_vocabulary.units import RequestId, Seconds, Tokens
from justitia_vocabulary.waiting import WaitingReason

BLOCK: Tokens = 16
WRITTEN = 0
LONGEST: Tokens = 4096
LOG = logging.getLogger("justitia.paced")


@dataclass(frozen=True)
class Pace:
    """How long a step takes, in seconds: per step, and per token processed; and what an engine has room for."""

    per_step: Seconds
    per_token: Seconds
    kv_tokens: Tokens
    seats: int
    token_budget: Tokens
    prefix_cache: bool

    def step(self, tokens: Tokens) -> Seconds:
        return self.per_step + self.per_token * tokens


@dataclass(eq=False)
class Sequence:
    """A sequence, as far as it is `read` and has `produced`. Its client hears of each token."""

    name: SequenceName
    tokens: list[int]
    output: Tokens
    cached: Tokens = 0
    read: Tokens = 0
    produced: Tokens = 0
    heard: "asyncio.Queue[Tokens]" = field(default_factory=asyncio.Queue)

    @property
    def prompt(self) -> Tokens:
        return len(self.tokens)

    @property
    def size(self) -> Tokens:
        return self.prompt + self.output

    @property
    def held(self) -> Tokens:
        return self.read + self.produced


class PacedEngine:
    def __init__(self, pace: Pace, socket: Path) -> None:
        self._pace = pace
        self._cache = PacedCache(pace.kv_tokens // BLOCK if pace.prefix_cache else 0, BLOCK)
        self.waiting: dict[RequestId, Sequence] = {}
        self.running: dict[RequestId, Sequence] = {}
        self.steps = 0
        self._arrived: list[Sequence] = []
        self._work = asyncio.Event()
        self._in_step = False
        self._link = Link(str(socket), About("paced", pace.kv_tokens, BLOCK, 0), LOG.warning)
        self._desk = Desk(
            self._link,
            pace.kv_tokens,
            self._open,
            produced=lambda name: self._of(name).produced,
            in_step=lambda: self._in_step,
            view=lambda limit: QueueView(WaitingReason.ENGINE_BUSY, ()),
            log=LOG,
        )
        self._link.start(self._desk.between_steps)

    @property
    def used(self) -> Tokens:
        return sum(each.size for each in self.running.values())

    def add(self, key: str, prompt: list[int], output: Tokens) -> Sequence:
        sequence = Sequence(SequenceName(RequestId(f"{key}-0"), key, 0), prompt, output)
        self.waiting[sequence.name.id] = sequence
        self._arrived.append(sequence)
        self._work.set()
        return sequence

    def abort(self, sequence: Sequence) -> None:
        """Its client is gone."""
        name = sequence.name.id
        self.waiting.pop(name, None)
        if name in self.running or sequence not in self._arrived:
            self._desk.closed(name, sequence.produced, finished=False)
            self.running.pop(name, None)
        else:
            self._arrived.remove(sequence)

    async def work(self) -> None:
        """Make steps, for ever."""
        ends = time.monotonic()
        while True:
            if not (self.waiting or self.running):
                self._work.clear()
                await self._work.wait()
                ends = time.monotonic()
            chunks = self._schedule()
            tokens = sum(chunks.values())
            if not tokens:
                await asyncio.sleep(self._pace.per_step)
                ends = time.monotonic()
                continue
            duration = self._pace.step(tokens)
            ends += duration
            self._in_step = True
            await asyncio.sleep(max(0.0, ends - time.monotonic()))
            self._in_step = False
            self._update(chunks, duration)

    def _schedule(self) -> dict[RequestId, Tokens]:
        """The tokens that the next step processes, by sequence."""
        self._desk.settle([(each.name, each.prompt) for each in self._arrived])
        self._arrived.clear()
        chunks = {name: 1 for name, each in self.running.items() if each.read == each.prompt}
        budget = self._pace.token_budget - len(chunks)
        for name, each in self.running.items():
            if budget > 0 and each.read < each.prompt:
                chunks[name] = min(budget, each.prompt - each.read)
                budget -= chunks[name]
        while budget > 0 and len(self.running) < self._pace.seats and (head := self._desk.head()) is not None:
            each = self.waiting[head]
            if self.used + each.size > self._pace.kv_tokens:
                break
            self.running[head] = self.waiting.pop(head)
            each.read = each.cached = self._cache.find(each.tokens)
            self._desk.admitted(head, each.cached)
            chunks[head] = min(budget, each.prompt - each.read)
            budget -= chunks[head]
        return chunks

    def _update(self, chunks: dict[RequestId, Tokens], duration: Seconds) -> None:
        self.steps += 1
        readings = []
        for name, tokens in chunks.items():
            if (each := self.running.get(name)) is None:
                continue
            if each.read < each.prompt:
                each.read += tokens
                readings.append(Reading(name, tokens, 0))
            if each.read == each.prompt:
                each.produced += 1
                each.heard.put_nowait(each.produced)
        held = sum(each.held for each in self.running.values())
        self._desk.stepped(StepDone(len(chunks), sum(chunks.values()), held, tuple(readings), duration))
        for name, each in list(self.running.items()):
            if each.produced == each.output:
                self._cache.keep([*each.tokens, *[WRITTEN] * each.produced])
                self._desk.ends(name)
                self._desk.closed(name, each.produced, finished=True)
                del self.running[name]
        self._desk.step_is_over()

    def _open(self) -> Iterator[OpenSequence]:
        for running, sequences in ((True, self.running), (False, self.waiting)):
            for each in sequences.values():
                yield OpenSequence(each.name, each.prompt, each.produced, running)

    def _of(self, name: RequestId) -> Sequence:
        found = self.running.get(name) or self.waiting.get(name)
        assert found is not None
        return found


class Server:
    """vLLM's API, of one model without a tokenizer: prompts are lists of token ids."""

    def __init__(self, engine: PacedEngine, pace: Pace) -> None:
        self._engine = engine
        self._pace = pace
        self.app = web.Application(client_max_size=2**26)
        self.app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._complete),
            ]
        )

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "paced", "max_model_len": LONGEST}]})

    async def _metrics(self, request: web.Request) -> web.Response:
        engine, pace = self._engine, self._pace
        blocks = pace.kv_tokens // BLOCK
        lines = (
            f'vllm:num_requests_running{{engine="0"}} {len(engine.running)}',
            f'vllm:num_requests_waiting{{engine="0"}} {len(engine.waiting)}',
            f'vllm:iteration_tokens_total_count{{engine="0"}} {engine.steps}',
            f'vllm:kv_cache_usage_perc{{engine="0"}} {engine.used / pace.kv_tokens}',
            f'vllm:cache_config_info{{block_size="{BLOCK}",num_gpu_blocks="{blocks}",'
            f'enable_prefix_caching="{pace.prefix_cache}",engine="0"}} 1.0',
        )
        return web.Response(text="".join(f"{line}\n" for line in lines))

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        prompt, output = asked["prompt"], int(asked["max_tokens"])
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        sequence = self._engine.add(request.headers["x-request-id"], prompt, output)
        over = False
        try:
            await response.prepare(request)
            while not over:
                produced = await sequence.heard.get()
                over = produced == output
                await response.write(_event(sequence, produced))
            await response.write(_event(sequence, output, last=True) + b"data: [DONE]\n\n")
        finally:
            if not over:
                self._engine.abort(sequence)
        return response


def _event(sequence: Sequence, produced: Tokens, *, last: bool = False) -> bytes:
    usage = {
        "prompt_tokens": sequence.prompt,
        "total_tokens": sequence.prompt + produced,
        "completion_tokens": produced,
        "prompt_tokens_details": {"cached_tokens": sequence.cached},
    }
    body = {"choices": [] if last else [{"index": 0, "text": "a"}], "usage": usage}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


async def serve(pace: Pace, socket: Path, port: int) -> None:
    engine = PacedEngine(pace, socket)
    runner = web.AppRunner(Server(engine, pace).app, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await engine.work()


def main(  # noqa: PLR0917
    port: Annotated[int, typer.Option(help="Port of the HTTP API, on loopback")],
    socket: Annotated[Path, typer.Option(help="The sidecar's socket")],
    per_step: Annotated[float, typer.Option(help="Seconds that a step takes at least")] = 0.02,
    per_token: Annotated[float, typer.Option(help="Seconds more for each token that it processes")] = 0.0001,
    kv_tokens: Annotated[int, typer.Option(help="KV space, in tokens")] = 4096,
    seats: Annotated[int, typer.Option(help="Sequences that run at once")] = 8,
    token_budget: Annotated[int, typer.Option(help="Tokens that a step processes at most")] = 512,
    *,
    prefix_cache: Annotated[bool, typer.Option("--prefix-cache", help="Find prefixes again")] = False,
) -> None:
    """Serve as vLLM would, without a model, until killed."""
    logging.basicConfig(level=logging.WARNING)
    uvloop.run(serve(Pace(per_step, per_token, kv_tokens, seats, token_budget, prefix_cache), socket, port))


if __name__ == "__main__":
    typer.run(main)
