"""A completion's way through the sidecar: accept, wait, forward (`forwarding.py`). Plain ASGI, no framework in between.

The body goes to the engine as it came. A client that goes away cancels its request at whatever stage; closing the
engine's connection frees its KV.
"""

import asyncio
import time
import uuid
from contextlib import AbstractContextManager, nullcontext

from justitia_api.wire import Refusal
from justitia_predictor.features import FirstRequest
from justitia_scheduling.model import ApplicationId, RequestId, TenantId, Tokens
from justitia_sidecar import recognition
from justitia_sidecar.admission import Admission
from justitia_sidecar.asgi import (
    ClientGoneError,
    Connection,
    Receive,
    Scope,
    Send,
    connection_of,
    send_answer,
    until_disconnect,
)
from justitia_sidecar.body import Endpoint, ParsedBody, parse_body
from justitia_sidecar.bounds import queue_full
from justitia_sidecar.forwarding import Accepted, Forwarding
from justitia_sidecar.learning import Noticed
from justitia_sidecar.memory import memory_limit
from justitia_sidecar.refusals import RefusalError, shown
from justitia_sidecar.service import Sidecar, draining_refusal, engine_unavailable
from justitia_sidecar.ticket import Ticket
from justitia_sidecar.waiting import Waiting

PART_FOR_BODIES = 1 / 4
"""Of the memory that this process may have, for all request bodies together."""


class Proxy:
    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._held_bytes = 0
        self._most_held_bytes = int(memory_limit() * PART_FOR_BODIES)

    async def serve(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        tenant: TenantId,
        endpoint: Endpoint,
        application: str | None,
    ) -> None:
        sidecar = self._sidecar
        parts: list[bytes] = []
        sidecar.opened()
        try:
            if sidecar.draining:
                raise draining_refusal()
            await self._read_body(scope, receive, parts)
            parts[:] = [b"".join(parts)]
            accepted = self._accept(tenant, scope, parts[0], endpoint, application)
            with self._reserving(accepted):
                await until_disconnect(receive, self._complete(accepted, send, connection_of(scope)))
        except RefusalError as refusal:
            sidecar.metrics.refusals.labels(refusal.refusal.value).inc()
            await send_answer(send, refusal.refusal.status, refusal.headers, refusal.body)
        except ClientGoneError:
            pass
        finally:
            self._held_bytes -= sum(map(len, parts))
            sidecar.closed()

    # Accepting.

    async def _read_body(self, scope: Scope, receive: Receive, parts: list[bytes]) -> None:
        """Fills `parts`. Raises refusals, and ClientGoneError."""
        most = self._sidecar.configured().config.queue.maximum_body_bytes
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        size = int(declared) if declared.isdigit() else 0
        received, more = 0, True
        while more:
            if max(size, received) > most:
                raise too_large(most)
            if self._held_bytes > self._most_held_bytes:
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
        parsed = parse_body(endpoint, body, several=sidecar.in_engine)
        model = in_force.config.model
        if parsed.model != model:
            raise RefusalError(
                Refusal.MODEL_NOT_FOUND,
                f"This pool serves the model {model!r}, not {shown(parsed.model)}.",
                param="model",
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
        if parsed.longest_prompt is not None:
            admission.check_fits(parsed.longest_prompt, parsed.max_tokens or 0)
        admission.check_room(tenant, parsed.sequences)
        ends = recognition.ends_run(headers)
        return Accepted(tenant, application, parsed, body, scope["headers"], run, ends, endpoint, now)

    def _reserving(self, accepted: Accepted) -> AbstractContextManager[None]:
        """What is expected of the request counts in its tenant's tokens per minute until it is over and was counted."""
        sidecar, parsed = self._sidecar, accepted.parsed
        bucket = sidecar.buckets.get(accepted.tenant)
        if bucket is None:
            return nullcontext()
        application = recognition.application_id(accepted.application)
        output = sidecar.configured().admission.outputs.expect(application, parsed.max_tokens)
        return bucket.reserving(self._prompt_tokens(application, parsed) + parsed.sequences * output)

    # Waiting and forwarding.

    async def _complete(self, accepted: Accepted, send: Send, connection: Connection) -> None:
        sidecar = self._sidecar
        in_force = sidecar.configured()
        admission = in_force.admission
        noticed = await self._notice(accepted, admission)
        admitted = asyncio.get_running_loop().create_future()
        ticket = self._ticket(accepted, admission, admitted, noticed)
        waiting = Waiting(ticket, admission, in_force.config.queue.timeout_seconds, sidecar.waiters)
        ticket.on_begun = lambda: self._begun(ticket, waiting)
        ticket.on_displaced = lambda: waiting.refuse(queue_full(in_force.config.queue.maximum_requests))
        forwarding = Forwarding(sidecar, admission, accepted, ticket, waiting=waiting, send=send, connection=connection)
        try:
            async with waiting:
                started = time.perf_counter()
                sidecar.objectives.arrived(ticket)
                admission.enter(ticket, accepted.arrival)
                admission.pump(accepted.arrival)
                sidecar.metrics.decision.observe(time.perf_counter() - started)
                sidecar.wake_when_begun()
                await admitted
                await forwarding.run()
        finally:
            forwarding.close()
            sidecar.wake_when_begun()

    async def _notice(self, accepted: Accepted, admission: Admission) -> Noticed | None:
        """What is predicted of a run by its first request. Raises refusals: others may have come meanwhile."""
        learning, parsed = accepted.application.learning, accepted.parsed
        application = recognition.application_id(accepted.application)
        if learning is None or admission.runs.is_open(accepted.tenant, application, accepted.run, accepted.arrival):
            return None
        first = FirstRequest(
            parsed.text,
            parsed.prompt_bytes,
            self._prompt_tokens(application, parsed),
            parsed.max_tokens,
            parsed.messages,
            parsed.sequences,
        )
        noticed = await self._sidecar.learning.notice(learning, first, accepted.run or uuid.uuid4().hex)
        admission.check_room(accepted.tenant, parsed.sequences)
        return noticed

    def _begun(self, ticket: Ticket, waiting: Waiting) -> None:
        delay = self._sidecar.clock() - ticket.arrival
        self._sidecar.metrics.queue_delay.labels(ticket.tenant, ticket.application).observe(delay)
        waiting.over()

    def _prompt_tokens(self, application: ApplicationId, parsed: ParsedBody) -> Tokens:
        """An estimate where only the engine can count."""
        if parsed.prompt_tokens is not None:
            return parsed.prompt_tokens
        return self._sidecar.tokens_per_byte.estimate(application, parsed.prompt_bytes)

    def _ticket(
        self,
        accepted: Accepted,
        admission: Admission,
        admitted: "asyncio.Future[None]",
        noticed: Noticed | None,
    ) -> Ticket:
        parsed = accepted.parsed
        application = recognition.application_id(accepted.application)
        tokens = self._prompt_tokens(application, parsed)
        each = parsed.longest_prompt or -(-tokens // parsed.prompts)
        longest = admission.engine.longest or admission.engine.kv_tokens or each
        room = max(1, longest - each)
        told = None if noticed is None else noticed.told
        run = admission.runs.enter(accepted.tenant, accepted.application, accepted.run, accepted.arrival, told)
        if noticed is not None:
            self._sidecar.learning.opened(run, noticed)
        ticket = Ticket(
            id=RequestId(uuid.uuid4().hex),
            tenant=accepted.tenant,
            application=application,
            run=run,
            prompt_tokens=min(tokens, parsed.prompts * longest),
            prompt_exact=parsed.prompt_tokens is not None,
            max_tokens=room if parsed.max_tokens is None else min(parsed.max_tokens, room),
            fixed_output=parsed.fixed_output,
            streamed=parsed.stream,
            arrival=accepted.arrival,
            on_admitted=lambda: None if admitted.done() else admitted.set_result(None),
            prompts=parsed.prompts,
            sequences=parsed.sequences,
        )
        ticket.on_counted = lambda: self._sidecar.meter(ticket)
        estimated = self._sidecar.metrics.estimated_tokens.labels(ticket.tenant, ticket.application)
        ticket.on_estimated = estimated.inc
        return ticket


def too_large(most: int) -> RefusalError:
    return RefusalError(Refusal.BODY_TOO_LARGE, f"The body is larger than {most} bytes: shorten the prompt.")
