"""The client of the engine: one vLLM server, reached over HTTP.

It reads the engine's health, its KV space (`vllm:cache_config_info`: blocks x block size = tokens), its counts of
requests and its progress, and it forwards requests. A request is sent once: there is no retry. An answer to a probe is
read up to a bound.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter

from justitia_api import wire
from justitia_sidecar.engine.view import EngineView
from justitia_vocabulary.units import RequestId

_PROBE_TIMEOUT = aiohttp.ClientTimeout(total=5)
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5)

# Shorter than the engine's own keep-alive, 120 s as the operator starts it and 5 s otherwise, so that no request meets
# a connection that is being closed.
KEEPALIVE_SECONDS = 2

MOST_PROBED_BYTES = 16 * 2**20
"""The most bytes of one page. vLLM's metrics take about 100 KiB."""

_FORWARDED = frozenset({b"content-type", b"accept", b"traceparent", b"tracestate"})

_NO_AUTO_HEADERS = ("Accept-Encoding", "User-Agent")

_CACHE_INFO = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_STEPS = re.compile(r"^vllm:iteration_tokens_total_count(?:\{[^}]*\})? (\S+)", re.MULTILINE)
_USAGE = re.compile(r"^vllm:kv_cache_usage_perc(?:\{[^}]*\})? (\S+)", re.MULTILINE)
_RUNNING = re.compile(r"^vllm:num_requests_running(?:\{[^}]*\})? (\S+)", re.MULTILINE)
_WAITING = re.compile(r"^vllm:num_requests_waiting(?:\{[^}]*\})? (\S+)", re.MULTILINE)
_REASON = r'^vllm:num_requests_waiting_by_reason\{[^}]*reason="%s"[^}]*\} (\S+)'
_DEFERRED, _FOR_CAPACITY = (re.compile(_REASON % reason, re.MULTILINE) for reason in ("deferred", "capacity"))


class EngineError(Exception):
    """The engine was not reached, or its answer was not understood."""


class EngineAbsentError(EngineError):
    """Nobody listens at the engine's address."""


class _Model(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


async def read_at_most(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body of an answer. Raises EngineError beyond so many bytes."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most:
            raise EngineError(f"{response.url} answers with more than {most} bytes")
    return b"".join(parts)


def read_metrics(text: str, view: EngineView) -> EngineView:
    """`view` with the KV space, the counts of requests and the progress in the engine's metrics."""
    info = _CACHE_INFO.search(text)
    if info is None:
        raise EngineError("the engine's metrics have no vllm:cache_config_info: is it vLLM?")
    labels = dict(_LABEL.findall(info[1]))
    try:
        blocks, size = int(labels["num_gpu_blocks"]), int(labels["block_size"])
    except (KeyError, ValueError):
        raise EngineError(f"vllm:cache_config_info has no num_gpu_blocks or block_size: {labels}") from None
    if blocks * size <= 0:
        raise EngineError(f"the engine has {blocks} KV blocks of {size} tokens: it is not ready")
    counts = (_RUNNING, _WAITING, _DEFERRED, _FOR_CAPACITY)
    running, waiting, deferred, for_capacity = (_total(count, text) for count in counts)
    steps, usage = _STEPS.findall(text), _USAGE.findall(text)
    progress = (*steps, *usage) if steps and usage else None
    return replace(
        view,
        kv_tokens=blocks * size,
        block_size=size,
        prefix_cache=labels.get("enable_prefix_caching") == "True",
        running=running,
        waiting=waiting,
        deferred=deferred,
        for_capacity=for_capacity,
        progress=progress,
    )


def _total(count: re.Pattern[str], text: str) -> int:
    values = count.findall(text)
    try:
        return int(sum(map(float, values)))
    except (ValueError, OverflowError):
        raise EngineError(f"the engine counts {values}: these are not numbers of requests") from None


def engine_headers(request: RequestId, priority: int, received: Sequence[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """A few of the client's headers, and ours, which decide identity and order in the engine."""
    kept = [(name.decode(), value.decode("latin-1")) for name, value in received if name in _FORWARDED]
    return [*kept, ("x-request-id", request), (wire.ENGINE_PRIORITY_HEADER, str(priority))]


class _Body(aiohttp.BytesPayload):
    """A body whose memory is freed once it is written."""

    def __init__(self, content: bytes, on_written: Callable[[], None]) -> None:
        super().__init__(content)
        self._on_written = on_written

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        await super().write_with_length(writer, content_length)
        self._value = b""
        self._on_written()


async def post(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: list[tuple[str, str]],
    on_written: Callable[[], None],
    *,
    server_name: str | None = None,
) -> aiohttp.ClientResponse:
    """Send a request and return the head of its answer; the body is still to be read. `on_written` is called once all
    of the request has been written. Raises EngineError before any byte of the answer, EngineAbsentError if nothing was
    sent.
    """
    data = _Body(body, on_written)
    try:
        return await session.post(
            url, data=data, headers=headers, skip_auto_headers=_NO_AUTO_HEADERS, server_hostname=server_name
        )
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise EngineAbsentError(f"nobody listens at {url}: {error!r}") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise EngineError(f"the request was not sent to {url}: {error!r}") from error


class EngineClient:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url.rstrip("/")
        self._session = session

    @staticmethod
    def session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS)
        return aiohttp.ClientSession(
            connector=connector, timeout=_REQUEST_TIMEOUT, auto_decompress=False, read_bufsize=2**16
        )

    async def probe(self, view: EngineView) -> EngineView:
        """Ask the engine for its present state. Raises EngineError if it does not answer as it should."""
        try:
            await self._get("/health")
            found = read_metrics((await self._get("/metrics")).decode(), view)
            if view.longest is None or not view.ready:
                models = msgspec.json.decode(await self._get("/v1/models"), type=_Models).data
                found.longest = min((m.max_model_len for m in models if m.max_model_len), default=None)
        except aiohttp.ClientConnectorError as error:
            raise EngineAbsentError(f"nobody listens at {self.url}: {error!r}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineError(f"{self.url} does not answer: {error!r}") from error
        except (UnicodeDecodeError, msgspec.DecodeError) as error:
            raise EngineError(f"{self.url} does not answer as vLLM does: {error!r}") from error
        found.ready = True
        return found

    async def send(
        self, path: str, body: bytes, headers: list[tuple[str, str]], on_written: Callable[[], None]
    ) -> aiohttp.ClientResponse:
        """Send a request and return the head of its answer; the body is still to be read. `on_written` is called once
        the engine has the request's body. Raises EngineError before any byte of the answer, EngineAbsentError if
        nothing was sent.
        """
        return await post(self._session, self.url + path, body, headers, on_written)

    async def models(self) -> bytes:
        try:
            return await self._get("/v1/models")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineError(f"{self.url} does not answer: {error!r}") from error

    async def _get(self, path: str) -> bytes:
        """An answer as it is: a compressed one is not asked for."""
        async with self._session.get(
            self.url + path, timeout=_PROBE_TIMEOUT, skip_auto_headers=_NO_AUTO_HEADERS
        ) as response:
            response.raise_for_status()
            return await read_at_most(response, MOST_PROBED_BYTES)
