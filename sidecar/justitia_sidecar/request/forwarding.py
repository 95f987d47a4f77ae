"""Forwards an admitted request, accounts for its answer, and ends it.

The answer's bytes go back as they are, without usage that the client did not ask for. The engine is read even if the
client does not read (`outbox.py`): the request is over when the engine has finished it.
"""

from enum import StrEnum
from http import HTTPStatus

import aiohttp
import structlog

from justitia_api.wire import BEYOND_OBJECTIVE_HEADER, Refusal
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.stages import Stage
from justitia_sidecar.engine.client import EngineAbsentError, EngineError, engine_headers
from justitia_sidecar.refusals import Headers, RefusalError, broken_off, engine_unavailable
from justitia_sidecar.request.accepted import Accepted
from justitia_sidecar.request.asgi import Connection, Send
from justitia_sidecar.request.outbox import Outbox
from justitia_sidecar.request.parts import Parts
from justitia_sidecar.request.usage import EventSplitter, EventTooLongError, StreamedCount, read_answer, read_event
from justitia_sidecar.request.waiting import Waiting
from justitia_vocabulary.units import Seconds, Tokens

log = structlog.get_logger("justitia.sidecar")

_DONE = b"data: [DONE]"

MOST_ANSWER_BYTES = 32 * 2**20
"""The most bytes of an answer that is not streamed."""


class RequestOutcome(StrEnum):
    """How a request ended. The label of the metric."""

    COMPLETED = "completed"
    ABORTED = "aborted"
    STALLED = "stalled"
    ENGINE_FAILED = "engine_failed"
    REFUSED_BY_ENGINE = "refused_by_engine"


class Forwarding:
    """Forwards one admitted request."""

    def __init__(
        self,
        parts: Parts,
        admission: Admission,
        accepted: Accepted,
        request: TrackedRequest,
        *,
        waiting: Waiting,
        send: Send,
        connection: Connection,
    ) -> None:
        self._parts = parts
        self._admission = admission
        self._accepted = accepted
        self._request = request
        self._waiting = waiting
        self._connection = connection
        self._outbox = Outbox(parts.held, request.tenant, send, connection)
        self._head_sent = False
        self._outcome = RequestOutcome.ABORTED
        self._counted: Tokens = 0
        self._answered = False
        self._refused = False
        self._measured = False

    async def run(self) -> None:
        try:
            await self._outbox.finish(await self._forward())
        finally:
            self._outbox.close()
            if self._connection.given_up:
                self._parts.metrics.stalled.labels(self._request.tenant, self._request.application).inc()

    async def _forward(self) -> bytes:
        """Forward all of the answer but its last bytes, which it returns: the request is over before they are sent."""
        headers = engine_headers(self._request.id, self._request.placement.number, self._accepted.headers)
        endpoint, body = self._accepted.endpoint.value, self._accepted.body
        body.pin()
        try:
            response = await self._parts.engine.send(endpoint, body.content, headers, on_written=body.written)
        except EngineError as error:
            self._outcome = RequestOutcome.ENGINE_FAILED
            log.warning("request not sent: the engine does not answer", reason=str(error))
            self._parts.watch.lost()
            absent = isinstance(error, EngineAbsentError)
            if absent:
                self._refused_by_engine()
            raise engine_unavailable(begun=not absent) from None
        async with response:
            if response.status == 200 and self._request.asks.streamed:
                last = await self._stream(response)
            else:
                last = await self._answer(response)
        return last

    async def _stream(self, response: aiohttp.ClientResponse) -> bytes:
        self._request.timing.answered = self._parts.clock()
        if not self._parts.order.in_engine:
            await self._begin(response)
        splitter, count = EventSplitter(), StreamedCount(self._accepted.parsed.choices)
        last = b""
        try:
            async for data in response.content.iter_any():
                self._parts.watch.heard += 1
                if not self._head_sent:
                    await self._begin(response)
                forward = self._read(splitter.feed(data), count)
                if self._outcome is RequestOutcome.COMPLETED:
                    last += forward
                elif forward:
                    await self._outbox.write(forward)
        except (aiohttp.ClientError, EventTooLongError) as error:
            log.warning("answer broken off: the engine failed in a stream", reason=repr(error))
        if self._outcome is not RequestOutcome.COMPLETED:
            self._outcome = RequestOutcome.ENGINE_FAILED
            if not self._head_sent:
                raise engine_unavailable(begun=True)
            last = broken_off()
        self.close()
        return last

    async def _begin(self, response: aiohttp.ClientResponse) -> None:
        """Send the answer's head. If requests wait inside the engine, its head does not show a beginning: it comes at
        once.
        """
        self._head_sent = True
        self._waiting.over()
        await self._outbox.begin(200, self._head(response))

    def _read(self, events: list[bytes], count: StreamedCount) -> bytes:
        """Account for the events of one read together, because they came at one moment. Returns what to forward."""
        parsed = self._accepted.parsed
        forward: list[bytes] = []
        for event in events:
            read = read_event(event, keep_usage=parsed.wants_usage, keep_continuous=parsed.wants_continuous_usage)
            count.add(read)
            if event.startswith(_DONE):
                self._outcome = RequestOutcome.COMPLETED
            forward.append(read.forward)
        if count.produced > self._counted:
            prompt_tokens = count.prompt_tokens or self._request.account.prompt
            self._count(prompt_tokens, count.produced, every_prompt=count.prompts == parsed.prompts)
        return b"".join(forward)

    async def _answer(self, response: aiohttp.ClientResponse) -> bytes:
        """Pass on a whole answer, or the engine's own refusal."""
        outbox = self._outbox
        try:
            async for part in response.content.iter_any():
                self._parts.watch.heard += 1
                outbox.hold(part)
                if outbox.held > MOST_ANSWER_BYTES:
                    raise answer_too_large()
        except aiohttp.ClientError as error:
            self._outcome = RequestOutcome.ENGINE_FAILED
            log.warning("answer broken off: the engine failed before it was whole", reason=repr(error))
            raise engine_unavailable(begun=True) from None
        body = outbox.whole()
        if response.status == 200:
            usage = read_answer(body)
            if usage is not None:
                self._count(usage.prompt_tokens, usage.completion_tokens or 0, usage.cached)
            self._outcome = RequestOutcome.COMPLETED
        else:
            if response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                self._refused_by_engine()
            self._outcome = RequestOutcome.REFUSED_BY_ENGINE
        self.close()
        length = (b"content-length", b"%d" % len(body))
        await outbox.begin(response.status, [*self._head(response), length])
        outbox.release()
        return b""

    def _refused_by_engine(self) -> None:
        self._refused = True
        self._admission.refused_by_engine(self._request, self._parts.clock())

    def _head(self, response: aiohttp.ClientResponse) -> Headers:
        kind = response.headers.get("content-type", "application/json")
        head = [(b"content-type", kind.encode("latin-1")), (b"x-request-id", self._request.id.encode())]
        if (beyond := self._accepted.beyond) is not None:
            head.append((BEYOND_OBJECTIVE_HEADER.encode(), beyond.header))
        return head

    def _count(self, prompt_tokens: Tokens, produced: Tokens, cached: Tokens = 0, *, every_prompt: bool = True) -> None:
        """Take the engine's count so far. `every_prompt` says that it has counted all of them."""
        now = self._parts.clock()
        request = self._request
        self._counted = produced
        self._admission.counted(request, prompt_tokens, produced, now, cached)
        if produced and not self._answered:
            self._answered = True
            if request.asks.streamed:
                request.timing.first_token = now
                self._parts.objectives.first_token(request, now)
                self._parts.first_tokens.observe(request.tenant, request.age(now))
                self._metric("first_token", request.age(now))
        size = self._accepted.parsed.prompt_bytes
        if produced and size and every_prompt and not self._measured:
            self._measured = True
            self._parts.tokens_per_byte.observe(request.application, size, prompt_tokens)

    def close(self) -> None:
        """End the request, once, whatever happened."""
        request = self._request
        if request.stage is Stage.OVER:
            return
        now = self._parts.clock()
        metrics = self._parts.metrics
        labels = (request.tenant, request.application)
        if self._outcome is RequestOutcome.ABORTED and self._connection.given_up:
            self._outcome = RequestOutcome.STALLED
        if request.in_engine and not (request.account.produced or self._refused):
            metrics.estimated_tokens.labels(*labels).inc(self._admission.abandoned(request, now))
        completed = self._outcome is RequestOutcome.COMPLETED
        self._parts.objectives.ended(request, now, completed=completed, engine=self._parts.order.policy_report)
        if completed:
            self._metric("completion", request.age(now))
            if (pace := request.pace(now)) is not None:
                self._metric("pace", pace)
        self._parts.metering.count(request)
        metrics.requests.labels(*labels, self._outcome).inc()
        self._admission.leave(request, now, completed=completed, ends_run=self._accepted.ends_run)

    def _metric(self, name: str, value: Seconds) -> None:
        histogram = getattr(self._parts.metrics, name)
        histogram.labels(self._request.tenant, self._request.application).observe(value)


def answer_too_large() -> RefusalError:
    return RefusalError(
        Refusal.UNSUPPORTED,
        f"The answer has more than {MOST_ANSWER_BYTES} bytes: ask for a stream, or for less.",
        param="stream",
    )
