"""An admitted request: its answer, its accounting, its end.

The answer's bytes go back as they are, less usage that nobody asked for. The engine is read whether or not the client
reads (`outbox.py`), and the request is over when the engine has finished it.
"""

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

import aiohttp

from justitia_api.config import ApplicationConfig
from justitia_api.wire import Refusal
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.ticket import Stage, Ticket
from justitia_sidecar.engine.client import EngineAbsentError, EngineError, engine_headers
from justitia_sidecar.refusals import Headers, RefusalError, error_body
from justitia_sidecar.request.asgi import Connection, Send
from justitia_sidecar.request.body import Endpoint, ParsedBody
from justitia_sidecar.request.outbox import Outbox
from justitia_sidecar.request.reading import Body
from justitia_sidecar.request.usage import EventSplitter, EventTooLongError, StreamedCount, read_answer, read_event
from justitia_sidecar.request.waiting import Waiting
from justitia_sidecar.service import Sidecar, engine_unavailable, log
from justitia_vocabulary.units import Seconds, TenantId, Tokens

_DONE = b"data: [DONE]"

MOST_ANSWER_BYTES = 32 * 2**20
"""Of an answer that is not streamed."""


class Outcome(StrEnum):
    """How a request ended: label of the metric."""

    COMPLETED = "completed"
    ABORTED = "aborted"
    STALLED = "stalled"
    ENGINE_FAILED = "engine_failed"
    REFUSED_BY_ENGINE = "refused_by_engine"


@dataclass(slots=True)
class Accepted:
    """A request that may wait. `body` is what the engine gets: the client's, with the tenant's cache salt."""

    tenant: TenantId
    application: ApplicationConfig
    parsed: ParsedBody
    body: Body
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
        connection: Connection,
    ) -> None:
        self._sidecar = sidecar
        self._admission = admission
        self._accepted = accepted
        self._ticket = ticket
        self._waiting = waiting
        self._connection = connection
        self._outbox = Outbox(sidecar.held, ticket.tenant, send, connection)
        self._head_sent = False
        self._outcome = Outcome.ABORTED
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
                self._sidecar.metrics.stalled.labels(self._ticket.tenant, self._ticket.application).inc()

    async def _forward(self) -> bytes:
        """All of the answer but its last bytes, which it returns: the request is over before they are sent."""
        headers = engine_headers(self._ticket, self._accepted.headers)
        endpoint, body = self._accepted.endpoint.value, self._accepted.body
        body.pin()
        try:
            response = await self._sidecar.engine.send(endpoint, body.content, headers, on_written=body.let_go)
        except EngineError as error:
            self._outcome = Outcome.ENGINE_FAILED
            log.warning("engine unavailable", reason=str(error))
            self._sidecar.engine_lost()
            if isinstance(error, EngineAbsentError):
                self._refused_by_engine()
            raise engine_unavailable() from None
        async with response:
            if response.status == 200 and self._ticket.streamed:
                last = await self._stream(response)
            else:
                last = await self._answer(response)
        return last

    async def _stream(self, response: aiohttp.ClientResponse) -> bytes:
        if not self._sidecar.in_engine:
            await self._begin(response)
        splitter, count = EventSplitter(), StreamedCount(self._accepted.parsed.choices)
        last = b""
        try:
            async for data in response.content.iter_any():
                self._sidecar.heard += 1
                if not self._head_sent:
                    await self._begin(response)
                forward = self._read(splitter.feed(data), count)
                if self._outcome is Outcome.COMPLETED:
                    last += forward
                elif forward:
                    await self._outbox.write(forward)
        except (aiohttp.ClientError, EventTooLongError) as error:
            log.warning("engine failed in a stream", reason=repr(error))
        if self._outcome is not Outcome.COMPLETED:
            self._outcome = Outcome.ENGINE_FAILED
            if not self._head_sent:
                raise engine_unavailable()
            message = "The engine failed while it produced this answer: send the request again."
            last = b"data: " + error_body(Refusal.ENGINE_UNAVAILABLE, message) + b"\n\n"
        self.close()
        return last

    async def _begin(self, response: aiohttp.ClientResponse) -> None:
        """The answer's head. Where requests wait inside the engine, its own head tells nothing: it comes at once."""
        self._head_sent = True
        self._waiting.over()
        await self._outbox.begin(200, self._head(response))

    def _read(self, events: list[bytes], count: StreamedCount) -> bytes:
        """Account for the events of one read, together, because they came at one moment; returns what to forward."""
        parsed = self._accepted.parsed
        forward: list[bytes] = []
        for event in events:
            read = read_event(event, keep_usage=parsed.wants_usage, keep_continuous=parsed.wants_continuous_usage)
            count.add(read)
            if event.startswith(_DONE):
                self._outcome = Outcome.COMPLETED
            forward.append(read.forward)
        if count.produced > self._counted:
            prompt_tokens = count.prompt_tokens or self._ticket.prompt_tokens
            self._count(prompt_tokens, count.produced, every_prompt=count.prompts == parsed.prompts)
        return b"".join(forward)

    async def _answer(self, response: aiohttp.ClientResponse) -> bytes:
        """A whole answer, or the engine's own refusal, which is passed on."""
        outbox = self._outbox
        try:
            async for part in response.content.iter_any():
                self._sidecar.heard += 1
                outbox.hold(part)
                if outbox.held > MOST_ANSWER_BYTES:
                    raise answer_too_large()
        except aiohttp.ClientError as error:
            self._outcome = Outcome.ENGINE_FAILED
            log.warning("engine failed in an answer", reason=repr(error))
            raise engine_unavailable() from None
        body = outbox.whole()
        if response.status == 200:
            usage = read_answer(body)
            if usage is not None:
                self._count(usage.prompt_tokens, usage.completion_tokens or 0, usage.cached)
            self._outcome = Outcome.COMPLETED
        else:
            if response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                self._refused_by_engine()
            self._outcome = Outcome.REFUSED_BY_ENGINE
        self.close()
        length = (b"content-length", b"%d" % len(body))
        await outbox.begin(response.status, [*self._head(response), length])
        outbox.release()
        return b""

    def _refused_by_engine(self) -> None:
        self._refused = True
        self._admission.refused_by_engine(self._ticket, self._sidecar.clock())

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
        if self._outcome is Outcome.ABORTED and self._connection.given_up:
            self._outcome = Outcome.STALLED
        if ticket.stage in (Stage.SENT, Stage.STARTED) and not (ticket.produced or self._refused):
            metrics.estimated_tokens.labels(*labels).inc(self._admission.abandoned(ticket, now))
        completed = self._outcome is Outcome.COMPLETED
        self._sidecar.objectives.ended(ticket, now, completed=completed, engine=self._sidecar.policy_in_engine)
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


def answer_too_large() -> RefusalError:
    return RefusalError(
        Refusal.UNSUPPORTED,
        f"The answer has more than {MOST_ANSWER_BYTES} bytes: ask for a stream, or for less.",
        param="stream",
    )
