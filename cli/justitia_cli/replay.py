"""Replays a workload file against a live OpenAI endpoint: open loop by arrival, runs stage by stage.

Each request is a streamed completion through the `openai` client: a prompt of exactly `prompt_tokens` token ids
(:mod:`.prompts`), `max_tokens` and `ignore_eos` for exactly `output_tokens`; a caller that has other prompts writes the
bodies. `x-justitia-*` headers name the run; the last request of its last stage ends it.

Work of the client must not slow the engine beside it. So chunks are not parsed but only searched for their end, unless
a later prompt repeats the answer: then the engine is asked for its token ids (vLLM's `return_token_ids`). The prompt
goes into `extra_body`, because the client would spend microseconds on each token of the typed field.

`ready` is the moment at which a request should have been sent, so that a client that lags does not hide it. A request
that fails is recorded with its status and ends its run, as it would end an agent's: later stages are not sent.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import openai
from httpx2 import HTTPError, Limits, Timeout
from openai import AsyncOpenAI, DefaultAioHttpClient
from openai.resources.completions import AsyncCompletions

from justitia_api.wire import APPLICATION_HEADER, RUN_END_HEADER, RUN_HEADER
from justitia_cli.prompts import Prompts
from justitia_simulator.records import FINISHED, PolicyResults, RequestResult, run_result
from justitia_simulator.workload import WorkloadRequest, WorkloadRun
from justitia_vocabulary.units import Seconds

CANCELLED = "cancelled"
CONNECT_TIMEOUT: Seconds = 10.0
KEEPALIVE: Seconds = 2.0
"""Shorter than vLLM's own 5 s, so that no request meets a connection that is being closed."""
APPLICATION_PLACEHOLDER = "{application}"

Clock = Callable[[], Seconds]
Announce = Callable[[WorkloadRun, int], Mapping[str, str]]
"""Called just before a request is sent, with its run and its number in it. Returns headers to send with it."""
Write = Callable[[WorkloadRun, int], Mapping[str, object]]
"""Called with a request's run and its number in it. Returns fields of its body: the prompt, and what ends the answer.
"""


class TargetError(ValueError):
    """The target does not fit the workload, such as a tenant without an API key."""


@dataclass(frozen=True)
class Target:
    """The endpoint to which a workload is sent.

    `base_url` ends in `/v1`. If it has `{application}`, the run's application is put there, and no header names it.
    Without a `model`, the endpoint must list only one. `time_scale` stretches arrivals and tool time: 2 is half as
    fast. Token ids are drawn from `token_ids` (first, last), which must be ordinary tokens of the model. `connections`
    and `timeout` (seconds for one request) bound what the client holds open. `announce` and `write` are called for each
    request; without `write` prompts are token ids.
    """

    base_url: str
    model: str | None = None
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    policy: str = "live"
    seed: int = 1
    time_scale: float = 1.0
    token_ids: tuple[int, int] = (3, 400)
    connections: int = 2000
    timeout: Seconds = 3600.0
    announce: Announce = lambda run, number: {}
    write: Write | None = None

    def url(self, application: str) -> str:
        return self.base_url.replace(APPLICATION_PLACEHOLDER, application)

    def headers(self, run: WorkloadRun, last: bool) -> dict[str, str]:
        headers: dict[str, str] = {RUN_HEADER: run.id}
        if APPLICATION_PLACEHOLDER not in self.base_url:
            headers[APPLICATION_HEADER] = run.application
        if last:
            headers[RUN_END_HEADER] = "true"
        return headers

    def body(self, run: WorkloadRun, number: int, request: WorkloadRequest, prompt: list[int]) -> Mapping[str, object]:
        if self.write is not None:
            return self.write(run, number)
        fields: dict[str, object] = {"prompt": prompt, "max_tokens": request.output_tokens, "ignore_eos": True}
        return fields if request.context is None else fields | {"return_token_ids": True}


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """The state of a replay after each request. `elapsed` is in seconds since its start."""

    elapsed: Seconds
    requests: int
    sent: int
    finished: int
    failed: int


OnProgress = Callable[[ReplayProgress], None]


class Replay:
    """One replay. `run` sends all requests. `results` has what is known so far, also after a cancellation."""

    def __init__(
        self,
        workload: Sequence[WorkloadRun],
        target: Target,
        on_progress: OnProgress | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not target.base_url.startswith(("http://", "https://")):
            raise TargetError(f"{target.base_url}: expected a URL that begins with http:// or https://")
        keyless = sorted({r.tenant for r in workload} - set(target.api_keys))
        if keyless:
            raise TargetError(f"no API key for tenant {', '.join(keyless)}: give --api-key {keyless[0]}=KEY")
        self._workload = workload
        self._target = target
        self._on_progress = on_progress
        self._clock = clock
        self._start: Seconds = 0.0
        self._requests: dict[str, list[RequestResult]] = {}
        self._sent = 0
        self._closed = 0
        self._failed = 0
        self._model = target.model
        self._clients: dict[tuple[str, str], AsyncCompletions] = {}

    async def run(self) -> PolicyResults:
        """Send the workload and wait for all answers. If cancelled, it ends the open requests and records that."""
        self._clock = self._clock or asyncio.get_running_loop().time
        most = self._target.connections
        limits = Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=KEEPALIVE)
        async with DefaultAioHttpClient(
            limits=limits, timeout=Timeout(self._target.timeout, connect=CONNECT_TIMEOUT)
        ) as http:
            for url, tenant in {(self._target.url(r.application), r.tenant) for r in self._workload}:
                client = AsyncOpenAI(
                    base_url=url, api_key=self._target.api_keys[tenant], http_client=http, max_retries=0
                )
                self._clients[url, tenant] = client.completions
            self._model = self._target.model or await only_model(client)
            self._start = self._clock()
            async with asyncio.TaskGroup() as group:
                for run in self._workload:
                    group.create_task(self._run(run))
        return self.results()

    def results(self) -> PolicyResults:
        """Requests and runs so far, in order of arrival."""
        rows = [(run, self._requests.get(run.id, [])) for run in self._workload]
        return PolicyResults(
            self._target.policy,
            [r for _, requests in rows for r in requests],
            [run_result(requests, len(run.requests)) for run, requests in rows if requests],
            conditions={
                "source": "replay",
                "seed": self._target.seed,
                "time_scale": self._target.time_scale,
                "model": self._model,
            },
        )

    def _elapsed(self) -> Seconds:
        assert self._clock is not None
        return self._clock() - self._start

    async def _run(self, run: WorkloadRun) -> None:
        ready = run.arrival * self._target.time_scale
        number = 0
        prompts = Prompts(run, self._target.seed, self._target.token_ids)
        for index, stage in enumerate(run.stages):
            ready += stage.delay * self._target.time_scale
            await asyncio.sleep(max(0.0, ready - self._elapsed()))
            last_stage = index == len(run.stages) - 1
            prompts.stage_begins()
            async with asyncio.TaskGroup() as group:
                for position, request in enumerate(stage.requests, 1):
                    last = last_stage and position == len(stage.requests)
                    group.create_task(self._request(run, index, number, request, prompts, ready=ready, last=last))
                    number += 1
            mine = self._requests[run.id]
            if any(r.status != FINISHED for r in mine):
                return
            ready = self._elapsed()

    async def _request(
        self,
        run: WorkloadRun,
        stage: int,
        number: int,
        request: WorkloadRequest,
        prompts: Prompts,
        *,
        ready: Seconds,
        last: bool,
    ) -> None:
        target = self._target
        stream = _Stream(tells_ids=request.context is not None)
        prompt = prompts.write(number, request)
        body = target.body(run, number, request, prompt)
        self._sent += 1
        status = FINISHED
        try:
            headers = {**target.headers(run, last), **target.announce(run, number)}
            await self._complete(run, body, headers, stream)
            if not stream.finished:
                status = stream.error or "the stream ended before [DONE]"
        except openai.APIStatusError as error:
            status = f"HTTP {error.status_code} {error.code or error.message}"
        except (openai.APIConnectionError, HTTPError) as error:
            cause = root_cause(error)
            status = "timeout" if isinstance(cause, TimeoutError) else f"connection: {cause}"
        except asyncio.CancelledError:
            status = CANCELLED
            raise
        finally:
            prompts.answered(number, request, prompt, stream.token_ids)
            self._record(run, stage, ready, request, stream=stream, status=status)

    async def _complete(
        self, run: WorkloadRun, body: Mapping[str, object], headers: dict[str, str], stream: "_Stream"
    ) -> None:
        assert self._model is not None
        client = self._clients[self._target.url(run.application), run.tenant]
        async with client.with_streaming_response.create(
            model=self._model,
            prompt="",
            stream=True,
            stream_options={"include_usage": True},
            extra_body=body,
            extra_headers=headers,
        ) as response:
            async for chunk in response.iter_bytes():
                stream.feed(chunk, self._elapsed())

    def _record(
        self, run: WorkloadRun, stage: int, ready: Seconds, request: WorkloadRequest, *, stream: "_Stream", status: str
    ) -> None:
        result = RequestResult(
            policy=self._target.policy,
            run=run.id,
            tenant=run.tenant,
            application=run.application,
            stage=stage,
            arrival=run.arrival * self._target.time_scale,
            ready=ready,
            admitted=None,
            first_token=stream.first_token,
            finished=stream.last_token if status == FINISHED else None,
            prompt_tokens=request.prompt_tokens,
            output_tokens=stream.tokens,
            preemptions=0,
            status=status,
        )
        self._requests.setdefault(run.id, []).append(result)
        self._closed += 1
        self._failed += status != FINISHED
        if self._on_progress:
            total = sum(len(r.requests) for r in self._workload)
            done = self._closed - self._failed
            self._on_progress(ReplayProgress(self._elapsed(), total, self._sent, done, self._failed))


async def replay(
    workload: Sequence[WorkloadRun],
    target: Target,
    on_progress: OnProgress | None = None,
    clock: Clock | None = None,
) -> PolicyResults:
    """Replay the workload to its end. `clock` gives seconds (the event loop's time unless given)."""
    return await Replay(workload, target, on_progress, clock).run()


async def only_model(client: AsyncOpenAI) -> str:
    """The one model that the endpoint lists. Raises TargetError where there is none, or a choice."""
    try:
        names = [model.id async for model in client.models.list()]
    except openai.APIError as error:
        raise TargetError(f"{client.base_url}: cannot list its models: {root_cause(error)}") from None
    if len(names) != 1:
        raise TargetError(f"{client.base_url}: lists models {names or 'none'}: name one with --model")
    return names[0]


def root_cause(error: BaseException) -> BaseException:
    """The first cause of an error: the client reports a refused connection as a timeout."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


class _Usage(msgspec.Struct):
    completion_tokens: int


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []


class _Tail(msgspec.Struct):
    usage: _Usage | None = None
    error: dict[str, Any] | None = None


_DONE = b"data: [DONE]"
_DATA = b"data: "


class _Stream:
    """The facts of a server-sent event stream that a client needs: first token, last token, usage, how it ended.

    Only the last events are parsed, once, when the end marker arrives; with `tells_ids` all are, for `token_ids`.
    """

    def __init__(self, *, tells_ids: bool = False) -> None:
        self.token_ids: list[int] = []
        self._unparsed: bytes | None = b"" if tells_ids else None
        self.first_token: Seconds | None = None
        self.last_token: Seconds | None = None
        self.finished = False
        self.error: str | None = None
        self.tokens = 0
        self._tail = b""

    def feed(self, chunk: bytes, now: Seconds) -> None:
        self._tail = self._tail[-4096:] + chunk
        self.last_token = now
        if self.first_token is None and _DATA in chunk:
            self.first_token = now
        self.tokens += chunk.count(b'"finish_reason"')
        if self._unparsed is not None:
            self._read_ids(self._unparsed + chunk)
        if _DONE in self._tail[-64:] or b'"error"' in chunk:
            self._close()

    def _read_ids(self, received: bytes) -> None:
        *events, self._unparsed = received.split(b"\n\n")
        for event in events:
            try:
                chunk = msgspec.json.decode(event.removeprefix(_DATA), type=_Chunk)
            except msgspec.DecodeError:
                continue
            for choice in chunk.choices:
                self.token_ids += choice.token_ids or []

    def _close(self) -> None:
        for event in self._tail.split(b"\n"):
            if not event.startswith(_DATA) or event.startswith(_DONE):
                continue
            try:
                tail = msgspec.json.decode(event[len(_DATA) :], type=_Tail)
            except msgspec.DecodeError:
                continue
            if tail.error is not None:
                self.error = f"stream error {tail.error.get('code') or tail.error.get('message')}"
            elif tail.usage is not None:
                self.tokens = tail.usage.completion_tokens
        self.finished = self.error is None and _DONE in self._tail
