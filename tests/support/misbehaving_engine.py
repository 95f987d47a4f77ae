"""An engine that misbehaves on purpose: it answers as vLLM does until a test has it fail. Nothing is shown by it that a
real engine can show.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import Enum

from aiohttp import web

METRICS = """\
vllm:num_requests_running{engine="0"} 0.0
vllm:num_requests_waiting{engine="0"} 0.0
vllm:iteration_tokens_total_count{engine="0"} 7.0
vllm:kv_cache_usage_perc{engine="0"} 0.0
vllm:cache_config_info{block_size="10",num_gpu_blocks="100",engine="0"} 1.0
"""
"""The metrics of an engine that has finished all it was given."""

MUCH = 200
"""Pieces of 64 KiB: more than the buffers of sockets take."""


class Misbehaviour(Enum):
    NONE = "none"
    DIES_MID_STREAM = "dies mid-stream"
    ENDS_WITHOUT_DONE = "ends without [DONE]"
    GARBAGE = "garbage between events"
    ENDLESS_EVENT = "an event that does not end"
    HANGS = "hangs"
    DIES_BEFORE_ANSWER = "dies before it answers"
    REFUSES = "refuses the request"
    DIES_BEFORE_FIRST_BYTES = "dies after its head"
    SILENT = "sends its head and nothing more"
    SAYS_MUCH = "says more than sockets' buffers take, in no time"
    SAYS_MUCH_AND_HANGS = "says as much, and then nothing"
    SAYS_MUCH_AT_ONCE = "gives a whole answer of that size"


class MisbehavingEngine:
    def __init__(self) -> None:
        self.behaviour = Misbehaviour.NONE
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.open = 0
        self.probed = 0
        self.metrics = METRICS.encode()
        self.closed = asyncio.Event()
        self.silent = asyncio.Event()
        self.go_on = asyncio.Event()
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["MisbehavingEngine"]:
        app = web.Application()
        app.add_routes(
            [
                web.get("/health", _says("")),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", _says('{"data":[{"id":"m","max_model_len":900}]}')),
                web.post("/v1/completions", self._complete),
            ]
        )
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        self.probed += 1
        answer = web.Response(body=self.metrics)
        answer.enable_compression()
        return answer

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self.received.append(({k.lower(): v for k, v in request.headers.items()}, await request.read()))
        self.open += 1
        try:
            return await self._behave(request)
        finally:
            self.open -= 1
            self.closed.set()

    async def _behave(self, request: web.Request) -> web.StreamResponse:
        match self.behaviour:
            case Misbehaviour.DIES_BEFORE_ANSWER:
                _cut(request)
            case Misbehaviour.REFUSES:
                return web.json_response({"error": {"message": "no", "code": 400}}, status=400)
            case Misbehaviour.SAYS_MUCH_AT_ONCE:
                usage = {"prompt_tokens": 3, "completion_tokens": MUCH}
                return web.json_response({"choices": [{"text": "a" * (MUCH * 2**16)}], "usage": usage})
            case _:
                return await self._stream(request)
        raise AssertionError

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if self.behaviour is Misbehaviour.DIES_BEFORE_FIRST_BYTES:
            _cut(request)
        if self.behaviour is Misbehaviour.SILENT:
            self.silent.set()
            await self.go_on.wait()
        await response.write(event(1))
        match self.behaviour:
            case Misbehaviour.DIES_MID_STREAM:
                _cut(request)
            case Misbehaviour.ENDS_WITHOUT_DONE:
                return response
            case Misbehaviour.GARBAGE:
                await response.write(b"data: {not json\n\n: comment\n\n\xff\xfe\n\n")
            case Misbehaviour.ENDLESS_EVENT:
                while True:
                    await response.write(b"x" * 100_000)
            case Misbehaviour.HANGS:
                await asyncio.Event().wait()
            case Misbehaviour.SAYS_MUCH | Misbehaviour.SAYS_MUCH_AND_HANGS:
                await self._say_much(response)
            case _:
                pass
        await response.write(event(2) + event(2, choices=False) + b"data: [DONE]\n\n")
        return response

    async def _say_much(self, response: web.StreamResponse) -> None:
        for produced in range(2, MUCH):
            await response.write(event(produced, text="a" * 2**16))
        if self.behaviour is Misbehaviour.SAYS_MUCH_AND_HANGS:
            await asyncio.Event().wait()


def _says(text: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=text)

    return answer


def _cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


def event(produced: int, *, choices: bool = True, text: str = "a") -> bytes:
    usage = {"prompt_tokens": 3, "total_tokens": 3 + produced, "completion_tokens": produced}
    body = {"choices": [{"index": 0, "text": text}] if choices else [], "usage": usage}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
