"""A completion's way through the sidecar: accept, wait, forward (`forwarding.py`). Plain ASGI, no framework in between.

The body goes to the engine as it came, with the tenant's cache salt added. A client that goes away cancels its request
at whatever stage; closing the engine's connection frees its KV.
"""

import asyncio
import time
import uuid
from contextlib import AbstractContextManager, nullcontext

from justitia_api.wire import Refusal
from justitia_predictor.features import FirstRequest
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.bounds import queue_full
from justitia_sidecar.admission.ticket import Ticket
from justitia_sidecar.learning.prediction import RunPrediction
from justitia_sidecar.limits.pacing import Pace
from justitia_sidecar.refusals import RefusalError
from justitia_sidecar.request import recognition
from justitia_sidecar.request.asgi import (
    ClientGoneError,
    Connection,
    Receive,
    Scope,
    Send,
    connection_of,
    send_answer,
    until_disconnect,
)
from justitia_sidecar.request.body import Endpoint, ParsedBody, parse_body
from justitia_sidecar.request.forwarding import Accepted, Forwarding
from justitia_sidecar.request.reading import Body
from justitia_sidecar.request.salt import salted
from justitia_sidecar.request.waiting import Interruption, Waiting
from justitia_sidecar.service import Sidecar, draining_refusal, engine_unavailable
from justitia_vocabulary.units import ApplicationId, RequestId, TenantId, Tokens

REFUSALS_A_SECOND, IMMEDIATE_REFUSALS = 50.0, 100
"""Of a tenant."""


class Proxy:
    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._pace = Pace(REFUSALS_A_SECOND, IMMEDIATE_REFUSALS)

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
        sidecar.opened()
        try:
            async with Interruption() as interruption:
                body = Body(sidecar.held, tenant, interruption.refuse)
                try:
                    self._check_open(tenant)
                    await body.read(scope, receive, sidecar.configured().config.queue.maximum_body_bytes)
                    accepted = self._accept(tenant, scope, body, endpoint, application)
                    with self._reserving(accepted):
                        completing = self._complete(accepted, send, connection_of(scope), interruption)
                        await until_disconnect(receive, completing)
                finally:
                    body.let_go()
        except RefusalError as refusal:
            await self._refuse(refusal, tenant, receive, send)
        except ClientGoneError:
            pass
        finally:
            sidecar.closed()

    async def _refuse(self, refusal: RefusalError, tenant: TenantId, receive: Receive, send: Send) -> None:
        self._sidecar.metrics.refusals.labels(refusal.refusal.value).inc()
        delay = self._pace.delay(tenant, self._sidecar.clock())
        if delay and not self._sidecar.draining:
            await until_disconnect(receive, asyncio.sleep(delay))
        await send_answer(send, refusal.refusal.status, refusal.headers, refusal.body)

    # Accepting.

    def _check_open(self, tenant: TenantId, sequences: int = 1) -> None:
        """Raises a refusal where a request of the tenant would be refused whatever it says."""
        sidecar = self._sidecar
        if sidecar.draining:
            raise draining_refusal()
        admission = sidecar.configured().admission
        if (bucket := sidecar.buckets.get(tenant)) is not None and (wait := bucket.wait(sidecar.clock())) > 0:
            raise RefusalError(
                Refusal.RATE_LIMITED,
                f"Your tenant has used its {bucket.per_minute} tokens per minute: retry in {wait:.0f} s.",
                retry_after=wait,
            )
        admission.check_room(tenant, sequences)

    def _accept(self, tenant: TenantId, scope: Scope, body: Body, endpoint: Endpoint, path: str | None) -> Accepted:
        sidecar = self._sidecar
        in_force = sidecar.configured()
        headers = dict(scope["headers"])
        parsed = parse_body(endpoint, body.content, several=sidecar.in_engine)
        in_force.models.check(tenant, parsed.model)
        application = in_force.directory.application(tenant, path, headers)
        run = recognition.run_id(headers, parsed.run)
        now = sidecar.clock()
        admission = in_force.admission
        if not admission.engine.ready:
            raise engine_unavailable()
        if parsed.longest_prompt is not None:
            admission.check_fits(parsed.longest_prompt, parsed.max_tokens or 0)
        self._check_open(tenant, parsed.sequences)
        ends = recognition.ends_run(headers)
        body.change(salted(body.content, in_force.directory.salt(tenant)))
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

    async def _complete(
        self, accepted: Accepted, send: Send, connection: Connection, interruption: Interruption
    ) -> None:
        sidecar = self._sidecar
        in_force = sidecar.configured()
        admission = in_force.admission
        noticed = await self._notice(accepted, admission)
        admitted = asyncio.get_running_loop().create_future()
        ticket = self._ticket(accepted, admission, admitted, noticed)
        timeout = in_force.config.queue.timeout_seconds
        waiting = Waiting(ticket, admission, timeout, sidecar.waiters, interruption)
        ticket.on_begun = lambda: self._begun(ticket, waiting, accepted.body)
        ticket.on_displaced = lambda: waiting.refuse(queue_full(in_force.config.queue.maximum_requests))
        forwarding = Forwarding(sidecar, admission, accepted, ticket, waiting=waiting, send=send, connection=connection)
        try:
            with waiting:
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

    async def _notice(self, accepted: Accepted, admission: Admission) -> RunPrediction | None:
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
        noticed = await self._sidecar.learning.predicting.predict(learning, first, accepted.run or uuid.uuid4().hex)
        admission.check_room(accepted.tenant, parsed.sequences)
        return noticed

    def _begun(self, ticket: Ticket, waiting: Waiting, body: Body) -> None:
        delay = self._sidecar.clock() - ticket.arrival
        self._sidecar.metrics.queue_delay.labels(ticket.tenant, ticket.application).observe(delay)
        waiting.over()
        body.pin()

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
        noticed: RunPrediction | None,
    ) -> Ticket:
        parsed = accepted.parsed
        application = recognition.application_id(accepted.application)
        tokens = self._prompt_tokens(application, parsed)
        each = parsed.longest_prompt or -(-tokens // parsed.prompts)
        longest = admission.engine.longest or admission.engine.kv_tokens or each
        room = max(1, longest - each)
        told = None if noticed is None else noticed.predicted_cost
        run = admission.runs.enter(accepted.tenant, accepted.application, accepted.run, accepted.arrival, told)
        if noticed is not None:
            self._sidecar.learning.lessons.run_began(run, noticed)
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
