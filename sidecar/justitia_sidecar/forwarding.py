"""An admitted request: its answer, its accounting, its end.

The answer's bytes go back as they are, less usage that nobody asked for.
"""

from dataclasses import dataclass

import aiohttp

from justitia_api.config import ApplicationConfig
from justitia_api.wire import Refusal
from justitia_scheduling.model import Seconds, TenantId, Tokens
from justitia_sidecar.admission import Admission
from justitia_sidecar.asgi import Send, send_answer
from justitia_sidecar.body import Endpoint, ParsedBody
from justitia_sidecar.engine import EngineError, engine_headers
from justitia_sidecar.refusals import Headers, error_body
from justitia_sidecar.service import Sidecar, engine_unavailable, log
from justitia_sidecar.ticket import Stage, Ticket
from justitia_sidecar.usage import EventSplitter, EventTooLongError, StreamedCount, read_answer, read_event
from justitia_sidecar.waiting import Waiting

_DONE = b"data: [DONE]"


@dataclass(slots=True)
class Accepted:
    """A request that may wait."""

    tenant: TenantId
    application: ApplicationConfig
    parsed: ParsedBody
    body: bytes
    headers: list[tuple[bytes, bytes]]
    run: str | None
    ends_run: bool
    endpoint: Endpoint
    arrival: Seconds


class Forwarding:
    """An admitted request: its answer, its accounting, its end."""

    def __init__(
        self,
        sidecar: Sidecar,
        admission: Admission,
        accepted: Accepted,
        ticket: Ticket,
        *,
        waiting: Waiting,
        send: Send,
    ) -> None:
        self._sidecar = sidecar
        self._admission = admission
        self._accepted = accepted
        self._ticket = ticket
        self._waiting = waiting
        self._send = send
        self._head_sent = False
        self._outcome = "aborted"
        self._counted: Tokens = 0
        self._answered = False
        self._measured = False

    async def run(self) -> None:
        headers = engine_headers(self._ticket, self._accepted.headers)
        try:
            response = await self._sidecar.engine.send(self._accepted.endpoint.value, self._accepted.body, headers)
        except EngineError as error:
            self._outcome = "engine_failed"
            log.warning("engine unavailable", reason=str(error))
            self._sidecar.engine_lost()
            raise engine_unavailable() from None
        async with response:
            if response.status == 200 and self._ticket.streamed:
                await self._stream(response)
            else:
                await self._answer(response)

    async def _stream(self, response: aiohttp.ClientResponse) -> None:
        if not self._sidecar.in_engine:
            await self._begin(response)
        splitter, count = EventSplitter(), StreamedCount(self._accepted.parsed.choices)
        last = b""
        try:
            async for data in response.content.iter_any():
                if not self._head_sent:
                    await self._begin(response)
                forward = self._read(splitter.feed(data), count)
                if self._outcome == "completed":
                    last += forward
                elif forward:
                    await self._send({"type": "http.response.body", "body": forward, "more_body": True})
        except (aiohttp.ClientError, EventTooLongError) as error:
            log.warning("engine failed in a stream", reason=repr(error))
        if self._outcome != "completed":
            self._outcome = "engine_failed"
            if not self._head_sent:
                raise engine_unavailable()
            message = "The engine failed while it produced this answer: send the request again."
            last = b"data: " + error_body(Refusal.ENGINE_UNAVAILABLE, message) + b"\n\n"
        self.close()
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def _begin(self, response: aiohttp.ClientResponse) -> None:
        """The answer's head. Where requests wait inside the engine, its own head tells nothing: it comes at once."""
        self._head_sent = True
        self._waiting.over()
        await self._send({"type": "http.response.start", "status": 200, "headers": self._head(response)})

    def _read(self, events: list[bytes], count: StreamedCount) -> bytes:
        """Account for the events of one read, together, because they came at one moment; returns what to forward."""
        parsed = self._accepted.parsed
        forward: list[bytes] = []
        for event in events:
            read = read_event(event, keep_usage=parsed.wants_usage, keep_continuous=parsed.wants_continuous_usage)
            count.add(read)
            if event.startswith(_DONE):
                self._outcome = "completed"
            forward.append(read.forward)
        if count.produced > self._counted:
            prompt_tokens = count.prompt_tokens or self._ticket.prompt_tokens
            self._count(prompt_tokens, count.produced, every_prompt=count.prompts == parsed.prompts)
        return b"".join(forward)

    async def _answer(self, response: aiohttp.ClientResponse) -> None:
        """A whole answer, or the engine's own refusal, which is passed on."""
        try:
            body = await response.read()
        except aiohttp.ClientError as error:
            self._outcome = "engine_failed"
            log.warning("engine failed in an answer", reason=repr(error))
            raise engine_unavailable() from None
        if response.status == 200:
            usage = read_answer(body)
            if usage is not None:
                self._count(usage.prompt_tokens, usage.completion_tokens or 0, usage.cached)
            self._outcome = "completed"
        else:
            self._admission.refused_by_engine(self._ticket, self._sidecar.clock())
            self._outcome = "refused_by_engine"
        self.close()
        await send_answer(self._send, response.status, self._head(response), body)

    def _head(self, response: aiohttp.ClientResponse) -> Headers:
        kind = response.headers.get("content-type", "application/json")
        return [(b"content-type", kind.encode("latin-1")), (b"x-request-id", self._ticket.id.encode())]

    def _count(self, prompt_tokens: Tokens, produced: Tokens, cached: Tokens = 0, *, every_prompt: bool = True) -> None:
        """`every_prompt`: the engine has told of all of them."""
        now = self._sidecar.clock()
        ticket = self._ticket
        self._counted = produced
        self._admission.counted(ticket, prompt_tokens, produced, now, cached)
        if produced and not self._answered:
            self._answered = True
            if ticket.streamed:
                ticket.first_token = now
                self._sidecar.objectives.first_token(ticket, now)
                self._sidecar.first_token[ticket.tenant].observe(now - ticket.arrival)
                self._metric("first_token", now - ticket.arrival)
        size = self._accepted.parsed.prompt_bytes
        if produced and size and every_prompt and not self._measured:
            self._measured = True
            self._sidecar.tokens_per_byte.observe(ticket.application, size, prompt_tokens)

    def close(self) -> None:
        """The request is over, once, whatever came to pass."""
        ticket = self._ticket
        if ticket.stage is Stage.OVER:
            return
        now = self._sidecar.clock()
        metrics = self._sidecar.metrics
        labels = (ticket.tenant, ticket.application)
        if self._outcome == "aborted" and not ticket.streamed and ticket.stage is Stage.SENT:
            metrics.estimated_tokens.labels(*labels).inc(self._admission.abandoned(ticket, now))
        completed = self._outcome == "completed"
        self._sidecar.objectives.ended(ticket, now, completed=completed, engine=self._sidecar.engine_state)
        if completed:
            self._metric("completion", now - ticket.arrival)
            if (pace := ticket.pace(now)) is not None:
                self._metric("pace", pace)
        self._sidecar.meter(ticket)
        metrics.requests.labels(*labels, self._outcome).inc()
        self._admission.leave(ticket, now, completed=completed, ends_run=self._accepted.ends_run)

    def _metric(self, name: str, value: Seconds) -> None:
        histogram = getattr(self._sidecar.metrics, name)
        histogram.labels(self._ticket.tenant, self._ticket.application).observe(value)
