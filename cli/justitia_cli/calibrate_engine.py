"""A live OpenAI endpoint as calibration sees it: what it says of itself, and when the tokens of a request come.

A request is a streamed completion with an exact number of random prompt tokens and of output tokens. Token ids are
fresh in each calibration, so that a prefix cache never answers. Tokens are counted by the engine
(`continuous_usage_stats`), because one chunk may carry several. While requests run, bytes are only stored with their
moment. They are parsed afterwards, because work of the client would slow an engine beside it.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar
from urllib.parse import urlsplit

import httpx2
import openai
from openai import AsyncOpenAI, DefaultAioHttpClient

from justitia_cli.replay import CONNECT_TIMEOUT, only_model, root_cause
from justitia_sidecar.request.usage import EventSplitter, EventTooLongError, read_event
from justitia_simulator.calibration import CalibrationError
from justitia_vocabulary.units import Seconds, Tokens

Result = TypeVar("Result")
Clock = Callable[[], Seconds]

TOKEN_IDS = (3, 400)
"""The first and the last of ids that are ordinary tokens in practically every vocabulary."""

ANSWER_TIMEOUT: Seconds = 120.0
METRICS_TIMEOUT: Seconds = 5.0

KEEPALIVE: Seconds = 2.0
"""Shorter than vLLM's own 5 s, so that no request meets a connection that is being closed."""

_CACHE_INFO = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Timeline:
    """A request's answer: when it was sent, and (moment, tokens produced so far) of each event. Seconds."""

    prompt_tokens: Tokens
    sent: Seconds
    produced: tuple[tuple[Seconds, Tokens], ...]

    @property
    def first(self) -> Seconds:
        return self.produced[0][0]

    @property
    def last(self) -> Seconds:
        return self.produced[-1][0]


@dataclass(frozen=True, slots=True)
class KVSpace:
    """The engine's KV space in tokens, and the tokens of a block."""

    tokens: Tokens
    block_size: Tokens


class LiveEngine:
    """A model behind an OpenAI endpoint. Each method raises CalibrationError, with one line that says what is wrong."""

    def __init__(self, client: AsyncOpenAI, http: httpx2.AsyncClient, model: str, clock: Clock) -> None:
        self.model = model
        self._client = client
        self._http = http
        self._clock = clock
        self._random = random.Random()
        self._alphabet = range(TOKEN_IDS[0], TOKEN_IDS[1] + 1)

    @staticmethod
    @asynccontextmanager
    async def connect(base_url: str, api_key: str, model: str | None) -> AsyncIterator["LiveEngine"]:
        """Connect to a model, the endpoint's only one unless it is named. `base_url` ends in `/v1`."""
        if not base_url.startswith(("http://", "https://")) or not urlsplit(base_url).hostname:
            raise CalibrationError(f"--base-url {base_url}: expected a URL such as http://127.0.0.1:8000/v1")
        timeout = httpx2.Timeout(ANSWER_TIMEOUT, connect=CONNECT_TIMEOUT)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE)
        async with DefaultAioHttpClient(limits=limits, timeout=timeout) as http:
            client = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http, max_retries=0)
            yield LiveEngine(client, http, model or await only_model(client), asyncio.get_running_loop().time)

    async def longest_request(self) -> Tokens | None:
        """The most tokens of prompt and output together (vLLM's `max_model_len`). None if the endpoint does not say."""
        try:
            listed = {model.id: model async for model in self._client.models.list()}
        except openai.APIError:
            return None
        longest = (listed[self.model].model_extra or {}).get("max_model_len") if self.model in listed else None
        return longest if isinstance(longest, int) else None

    async def kv_space(self) -> KVSpace | None:
        """The KV space by vLLM's metrics beside `/v1`. None if they cannot be read, as behind a gateway."""
        url = str(self._client.base_url).rstrip("/").removesuffix("/v1") + "/metrics"
        try:
            answer = await self._http.get(url, timeout=METRICS_TIMEOUT)
        except httpx2.HTTPError:
            return None
        return read_kv_space(answer.text) if answer.is_success else None

    async def together(self, prompts: Sequence[Tokens], output_tokens: Tokens) -> list[Timeline]:
        """Send requests with these prompt lengths at once."""
        return await all_of([self.request(prompt, output_tokens) for prompt in prompts])

    async def arriving(
        self, batch: Sequence[Tokens], output_tokens: Tokens, prompts: Sequence[Tokens]
    ) -> tuple[list[Timeline], list[Timeline]]:
        """Send a batch of requests with prompts of these lengths. When all have begun, send requests with `prompts` and
        one token of output at once. Returns the timelines of both.
        """
        begun = [asyncio.Event() for _ in batch]

        async def after_all() -> list[Timeline]:
            for event in begun:
                await event.wait()
            return await self.together(prompts, 1)

        decoding = [self.request(prompt, output_tokens, event) for prompt, event in zip(batch, begun, strict=True)]
        timelines, arrived = await all_of([all_of(decoding), after_all()])
        return timelines, arrived

    async def request(
        self, prompt_tokens: Tokens, output_tokens: Tokens, begun: asyncio.Event | None = None
    ) -> Timeline:
        """Send one request and read its answer. `begun` is set when the first part of the answer is there."""
        prompt = self._random.choices(self._alphabet, k=prompt_tokens)
        arrived: list[tuple[Seconds, bytes]] = []
        sent = self._clock()
        try:
            async with self._client.completions.with_streaming_response.create(
                model=self.model,
                prompt="",
                max_tokens=output_tokens,
                stream=True,
                stream_options={"include_usage": True},
                extra_body={
                    "prompt": prompt,
                    "ignore_eos": True,
                    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
                },
            ) as response:
                async for chunk in response.iter_bytes():
                    arrived.append((self._clock(), chunk))
                    if begun is not None:
                        begun.set()
        except openai.APIStatusError as error:
            raise CalibrationError(f"{self._client.base_url}: {_explain(error)}") from None
        except (openai.APIConnectionError, httpx2.HTTPError) as error:
            cause = root_cause(error)
            what = f"no answer in {ANSWER_TIMEOUT:g} s" if isinstance(cause, TimeoutError) else _first_line(cause)
            raise CalibrationError(f"{self._client.base_url}: {what}: is the engine up and reachable?") from None
        return read_timeline(prompt_tokens, output_tokens, sent, arrived)


async def all_of(coroutines: Iterable[Coroutine[None, None, Result]]) -> list[Result]:
    """Run coroutines at the same time, and return their results. The first error ends the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _explain(error: openai.APIStatusError) -> str:
    match error.status_code:
        case 401 | 403:
            return f"HTTP {error.status_code}: the API key is not accepted: give another one with --api-key"
        case 404:
            return "HTTP 404: no such model or no /completions: check --model, and that --base-url ends in /v1"
        case code:
            return f"HTTP {code}: {error.message}"


def read_kv_space(metrics: str) -> KVSpace | None:
    """The KV space by the labels of `vllm:cache_config_info`. None if they are missing."""
    info = _CACHE_INFO.search(metrics)
    labels = dict(_LABEL.findall(info[1])) if info else {}
    blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
    if not (blocks.isdecimal() and size.isdecimal()) or int(blocks) * int(size) == 0:
        return None
    return KVSpace(int(blocks) * int(size), int(size))


def read_timeline(
    prompt_tokens: Tokens, output_tokens: Tokens, sent: Seconds, arrived: Sequence[tuple[Seconds, bytes]]
) -> Timeline:
    """Read the chunks of a stream. Raises CalibrationError if they cannot be measured."""
    splitter = EventSplitter()
    produced: list[tuple[Seconds, Tokens]] = []
    finished = False
    for moment, chunk in arrived:
        try:
            events = splitter.feed(chunk)
        except EventTooLongError as error:
            raise CalibrationError(str(error)) from None
        for event in events:
            finished = finished or event.startswith(b"data: [DONE]")
            read = read_event(event, keep_usage=True, keep_continuous=True)
            if read.usage is not None:
                if read.usage.prompt_tokens != prompt_tokens:
                    raise CalibrationError(
                        f"the endpoint counts {read.usage.prompt_tokens} tokens in a prompt of {prompt_tokens} ids: "
                        "calibration needs an endpoint that takes token ids as they are"
                    )
                produced.append((moment, read.usage.completion_tokens or 0))
    if not finished:
        raise CalibrationError("an answer ended before [DONE]: see the engine's log")
    growing = tuple(after for before, after in pairwise([(sent, 0), *produced]) if after[1] > before[1])
    if not growing:
        raise CalibrationError(
            "the endpoint's streams do not count tokens: calibration needs usage in every chunk, as vLLM sends it "
            "(stream_options.continuous_usage_stats)"
        )
    if growing[-1][1] != output_tokens:
        raise CalibrationError(
            f"the endpoint produced {growing[-1][1]} of {output_tokens} tokens: calibration needs one that honours "
            "'ignore_eos' and 'max_tokens'"
        )
    return Timeline(prompt_tokens, sent, growing)
