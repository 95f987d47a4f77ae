"""A completion's way through the sidecar: accept, wait, forward, account. Plain ASGI, no framework in between.

The body goes to the engine as it came and the answer's bytes go back as they are, less usage that nobody asked for.
A client that goes away cancels its request at whatever stage; closing the engine's connection frees its KV.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from justitia_api.config import ApplicationConfig
from justitia_api.wire import Refusal
from justitia_scheduling.model import RequestId, Seconds, TenantId
from justitia_sidecar import recognition
from justitia_sidecar.admission import Admission, Stage, Ticket
from justitia_sidecar.body import Endpoint, ParsedBody, parse_body
from justitia_sidecar.engine import EngineError, engine_headers
from justitia_sidecar.refusals import Headers, RefusalError, error_body
from justitia_sidecar.service import Sidecar, draining_refusal, log
from justitia_sidecar.usage import EventSplitter, EventTooLongError, read_answer, read_event

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAXIMUM_HELD_BYTES = 512 * 2**20
"""All request bodies in the sidecar together."""

_DONE = b"data: [DONE]"


class ClientGoneError(Exception):
    """The client went away before its request was read."""


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


class Proxy:
    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._held_bytes = 0

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, endpoint: Endpoint, application: str | None
    ) -> None:
        sidecar = self._sidecar
        parts: list[bytes] = []
        sidecar.opened()
        try:
            tenant = self._authenticate(scope)
            await self._read_body(scope, receive, parts)
            accepted = self._accept(tenant, scope, b"".join(parts), endpoint, application)
            await self._until_disconnect(receive, self._complete(accepted, send))
        except RefusalError as refusal:
            sidecar.metrics.refusals.labels(refusal.refusal.value).inc()
            await send_answer(send, refusal.refusal.status, refusal.headers, refusal.body)
        except ClientGoneError:
            pass
        finally:
            self._held_bytes -= sum(map(len, parts))
            sidecar.closed()

    # Accepting.

    def _authenticate(self, scope: Scope) -> TenantId:
        """Before anything of the body is read. Raises refusals."""
        sidecar = self._sidecar
        sidecar.configured()
        if sidecar.draining:
            raise draining_refusal()
        return sidecar.tenant(dict(scope["headers"]).get(b"authorization"))

    async def _read_body(self, scope: Scope, receive: Receive, parts: list[bytes]) -> None:
        """Fills `parts`. Raises refusals, and ClientGoneError."""
        most = self._sidecar.configured().config.queue.maximum_body_bytes
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        size = int(declared) if declared.isdigit() else 0
        received, more = 0, True
        while more:
            if max(size, received) > most:
                raise too_large(most)
            if self._held_bytes > MAXIMUM_HELD_BYTES:
                raise RefusalError(Refusal.QUEUE_FULL, "Too much is waiting here: retry later.", retry_after=5)
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            part = message.get("body", b"")
            parts.append(part)
            received += len(part)
            self._held_bytes += len(part)
            more = message.get("more_body", False)
        if received > most:
            raise too_large(most)

    def _accept(self, tenant: TenantId, scope: Scope, body: bytes, endpoint: Endpoint, path: str | None) -> Accepted:
        sidecar = self._sidecar
        in_force = sidecar.configured()
        headers = dict(scope["headers"])
        parsed = parse_body(endpoint, body)
        model = in_force.config.model
        if parsed.model != model:
            raise RefusalError(
                Refusal.MODEL_NOT_FOUND, f"This pool serves the model {model!r}, not {parsed.model!r}.", param="model"
            )
        application = in_force.directory.application(tenant, path, headers)
        run = recognition.run_id(headers, parsed.run)
        now = sidecar.clock()
        admission = in_force.admission
        if not admission.engine.ready:
            raise engine_unavailable()
        if (bucket := sidecar.buckets.get(tenant)) is not None and (wait := bucket.wait(now)) > 0:
            raise RefusalError(
                Refusal.RATE_LIMITED,
                f"Your tenant has used its {bucket.per_minute} tokens per minute: retry in {wait:.0f} s.",
                retry_after=wait,
            )
        if parsed.prompt_tokens is not None:
            admission.check_fits(parsed.prompt_tokens, parsed.max_tokens or 0)
        admission.check_room(tenant)
        ends = recognition.ends_run(headers)
        return Accepted(tenant, application, parsed, body, scope["headers"], run, ends, endpoint, now)

    async def _until_disconnect(self, receive: Receive, work: Awaitable[None]) -> None:
        """Await `work`, cancelled as soon as the client goes away."""
        task = asyncio.current_task()
        assert task is not None
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
        try:
            await work
        except asyncio.CancelledError:
            if not gone.done() or gone.cancelled():
                raise
            task.uncancel()
        finally:
            gone.cancel()

    # Waiting and forwarding.

    async def _complete(self, accepted: Accepted, send: Send) -> None:
        sidecar = self._sidecar
        admission = sidecar.configured().admission
        admitted = asyncio.get_running_loop().create_future()
        ticket = self._ticket(accepted, admission, admitted)
        forwarding = _Forwarding(sidecar, admission, accepted, ticket, send)
        try:
            started = time.perf_counter()
            admission.enter(ticket, accepted.arrival)
            admission.pump(accepted.arrival)
            sidecar.metrics.decision.observe(time.perf_counter() - started)
            sidecar.wake_when_begun()
            await self._wait(ticket, admitted)
            await forwarding.run()
        finally:
            forwarding.close()
            sidecar.wake_when_begun()

    def _ticket(self, accepted: Accepted, admission: Admission, admitted: "asyncio.Future[None]") -> Ticket:
        parsed = accepted.parsed
        application = recognition.application_id(accepted.application)
        exact = parsed.prompt_tokens
        tokens = self._sidecar.tokens_per_byte.estimate(application, parsed.prompt_bytes) if exact is None else exact
        longest = admission.engine.longest or admission.engine.kv_tokens or tokens
        room = max(1, longest - tokens)
        return Ticket(
            id=RequestId(uuid.uuid4().hex),
            tenant=accepted.tenant,
            application=application,
            run=admission.runs.enter(accepted.tenant, accepted.application, accepted.run, accepted.arrival),
            prompt_tokens=min(tokens, longest),
            prompt_exact=exact is not None,
            max_tokens=room if parsed.max_tokens is None else min(parsed.max_tokens, room),
            fixed_output=parsed.fixed_output,
            streamed=parsed.stream,
            arrival=accepted.arrival,
            on_admitted=lambda: None if admitted.done() else admitted.set_result(None),
        )

    async def _wait(self, ticket: Ticket, admitted: "asyncio.Future[None]") -> None:
        sidecar = self._sidecar
        if admitted.done():
            return
        timeout = sidecar.configured().config.queue.timeout_seconds
        sidecar.waiters[ticket] = admitted
        try:
            async with asyncio.timeout(timeout):
                await admitted
        except TimeoutError:
            raise RefusalError(
                Refusal.QUEUE_TIMEOUT,
                f"The request waited {timeout:g} s and was not admitted: retry later or send less at a time.",
                retry_after=10,
            ) from None
        finally:
            del sidecar.waiters[ticket]


class _Forwarding:
    """An admitted request: its answer, its accounting, its end."""

    def __init__(self, sidecar: Sidecar, admission: Admission, accepted: Accepted, ticket: Ticket, send: Send) -> None:
        self._sidecar = sidecar
        self._admission = admission
        self._accepted = accepted
        self._ticket = ticket
        self._send = send
        self._outcome = "aborted"
        self._answered = False

    async def run(self) -> None:
        now = self._sidecar.clock()
        self._metric("queue_delay", now - self._ticket.arrival)
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
        await self._send({"type": "http.response.start", "status": 200, "headers": self._head(response)})
        splitter = EventSplitter()
        last = b""
        try:
            async for data in response.content.iter_any():
                forward = self._read(splitter.feed(data))
                if self._outcome == "completed":
                    last += forward
                elif forward:
                    await self._send({"type": "http.response.body", "body": forward, "more_body": True})
        except (aiohttp.ClientError, EventTooLongError) as error:
            log.warning("engine failed in a stream", reason=repr(error))
        if self._outcome != "completed":
            self._outcome = "engine_failed"
            message = "The engine failed while it produced this answer: send the request again."
            last = b"data: " + error_body(Refusal.ENGINE_UNAVAILABLE, message) + b"\n\n"
        self.close()
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    def _read(self, events: list[bytes]) -> bytes:
        """Account for the events of one read, together, because they came at one moment; returns what to forward."""
        parsed = self._accepted.parsed
        prompt_tokens, produced = self._ticket.prompt_tokens, self._ticket.produced
        forward: list[bytes] = []
        for event in events:
            read = read_event(event, keep_usage=parsed.wants_usage, keep_continuous=parsed.wants_continuous_usage)
            if read.usage is not None:
                prompt_tokens, produced = read.usage.prompt_tokens, read.usage.completion_tokens or 0
            elif read.has_choices:
                produced += 1
            elif event.startswith(_DONE):
                self._outcome = "completed"
            forward.append(read.forward)
        if produced > self._ticket.produced:
            self._count(prompt_tokens, produced)
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

    def _count(self, prompt_tokens: int, produced: int, cached: int = 0) -> None:
        now = self._sidecar.clock()
        ticket = self._ticket
        self._admission.counted(ticket, prompt_tokens, produced, now, cached)
        if produced and not self._answered:
            self._answered = True
            if ticket.streamed:
                self._sidecar.first_token[ticket.tenant].observe(now - ticket.arrival)
                self._metric("first_token", now - ticket.arrival)
            if self._accepted.parsed.prompt_bytes:
                size = self._accepted.parsed.prompt_bytes
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
            estimate = self._admission.estimate_produced(ticket, now)
            self._admission.counted(ticket, ticket.prompt_tokens, estimate, now)
            metrics.estimated_tokens.labels(*labels).inc(estimate)
        completed = self._outcome == "completed"
        if completed:
            self._metric("completion", now - ticket.arrival)
        if ticket.produced:
            metrics.prompt_tokens.labels(*labels).inc(ticket.prompt_tokens)
            metrics.output_tokens.labels(*labels).inc(ticket.produced)
            if (bucket := self._sidecar.buckets.get(ticket.tenant)) is not None:
                bucket.take(ticket.prompt_tokens + ticket.produced, now)
        metrics.requests.labels(*labels, self._outcome).inc()
        self._admission.leave(ticket, now, completed=completed, ends_run=self._accepted.ends_run)

    def _metric(self, name: str, value: Seconds) -> None:
        histogram = getattr(self._sidecar.metrics, name)
        histogram.labels(self._ticket.tenant, self._ticket.application).observe(value)


def engine_unavailable() -> RefusalError:
    return RefusalError(
        Refusal.ENGINE_UNAVAILABLE, "The engine does not answer at the moment: retry shortly.", retry_after=2
    )


def too_large(most: int) -> RefusalError:
    return RefusalError(Refusal.BODY_TOO_LARGE, f"The body is larger than {most} bytes: shorten the prompt.")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": int(status), "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
