"""Takes a completion through the sidecar: accept, wait, forward (`forwarding.py`). Plain ASGI, without a framework.

The body goes to the engine as it came, with the tenant's cache salt added. If the client goes away, its request is
cancelled at whatever stage; the engine's connection is closed, which frees the request's KV space.
"""

import asyncio
import time
import uuid

from justitia_api.config import ApplicationConfig
from justitia_predictor.features import FirstRequest
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.bounds import check_fits
from justitia_sidecar.admission.request import RequestShape, Timing, TokenAccount, TrackedRequest
from justitia_sidecar.current import InEffect
from justitia_sidecar.identity import recognition
from justitia_sidecar.identity.salt import salted
from justitia_sidecar.learning.prediction import RunPrediction
from justitia_sidecar.limits.pacing import Pace
from justitia_sidecar.objectives.beyond import beyond_objective
from justitia_sidecar.refusals import RefusalError, draining, engine_unavailable
from justitia_sidecar.request.accepted import Accepted, RequestProgress
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
from justitia_sidecar.request.forwarding import Forwarding
from justitia_sidecar.request.parts import Parts
from justitia_sidecar.request.reading import Body
from justitia_sidecar.request.waiting import Interruption, Waiting
from justitia_vocabulary.objectives import BeyondObjective
from justitia_vocabulary.units import ApplicationId, RequestId, TenantId, Tokens

REFUSALS_A_SECOND, IMMEDIATE_REFUSALS = 50.0, 100
"""The pace of refusals to a tenant."""


class Proxy:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
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
        parts = self._parts
        parts.open.opened()
        try:
            async with Interruption() as interruption:
                body = Body(parts.held, tenant, interruption.refuse)
                try:
                    self._check_open(tenant, self._application(tenant, dict(scope["headers"]), application))
                    await body.read(scope, receive, parts.current.configured().config.queue.maximum_body_bytes)
                    accepted = self._accept(tenant, scope, body, endpoint, application)
                    with parts.metering.reserving(tenant, lambda: self._expected_tokens(accepted)):
                        completing = self._complete(accepted, send, connection_of(scope), interruption)
                        await until_disconnect(receive, completing)
                finally:
                    body.let_go()
        except RefusalError as refusal:
            await self._refuse(refusal, tenant, receive, send)
        except ClientGoneError:
            pass
        finally:
            parts.open.closed()

    async def _refuse(self, refusal: RefusalError, tenant: TenantId, receive: Receive, send: Send) -> None:
        self._parts.metrics.refusals.labels(refusal.refusal.value).inc()
        delay = self._pace.delay(tenant, self._parts.clock())
        if delay and not self._parts.open.draining:
            await until_disconnect(receive, asyncio.sleep(delay))
        await send_answer(send, refusal.refusal.status, refusal.headers, refusal.body)

    # Accepting.

    def _application(
        self, tenant: TenantId, headers: recognition.RequestHeaders, path: str | None
    ) -> ApplicationConfig:
        """The application of a request. Raises a refusal if the tenant has no such one."""
        return self._parts.current.configured().directory.application(tenant, path, headers)

    def _check_open(self, tenant: TenantId, application: ApplicationConfig, sequences: int = 1) -> None:
        """Raises a refusal if a request of the application would be refused whatever its body says."""
        parts = self._parts
        if parts.open.draining:
            raise draining()
        admission = parts.current.configured().admission
        parts.metering.check(tenant)
        admission.books.check_room(tenant, application.id, sequences)

    def _accept(self, tenant: TenantId, scope: Scope, body: Body, endpoint: Endpoint, path: str | None) -> Accepted:
        parts = self._parts
        in_effect = parts.current.configured()
        headers = dict(scope["headers"])
        parsed = parse_body(endpoint, body.content, several=parts.order.in_engine)
        in_effect.models.check(tenant, parsed.model)
        application = self._application(tenant, headers, path)
        run = recognition.run_id(headers, parsed.run)
        now = parts.clock()
        engine = in_effect.admission.engine
        if not (engine.ready or engine.doubted):
            raise engine_unavailable()
        if parsed.longest_prompt is not None:
            check_fits(parsed.longest_prompt, parsed.max_tokens or 0, engine.bounds)
        self._check_open(tenant, application, parsed.sequences)
        ends = recognition.ends_run(headers)
        body.change(salted(body.content, in_effect.directory.salt(tenant)))
        return Accepted(tenant, application, parsed, body, scope["headers"], run, ends, endpoint, now)

    def _expected_tokens(self, accepted: Accepted) -> Tokens:
        application, parsed = accepted.application.id, accepted.parsed
        outputs = self._parts.current.configured().admission.books.outputs
        output = outputs.expect(application, parsed.max_tokens)
        return self._prompt_tokens(application, parsed) + parsed.sequences * output

    # Waiting and forwarding.

    async def _complete(
        self, accepted: Accepted, send: Send, connection: Connection, interruption: Interruption
    ) -> None:
        parts = self._parts
        in_effect = parts.current.configured()
        admission, queue = in_effect.admission, in_effect.config.queue
        predicted = await self._predict(accepted, admission)
        self._look_ahead(accepted, in_effect)
        progress = RequestProgress(accepted.body, queue.maximum_requests, parts.metrics, parts.metering, parts.clock)
        request = self._track(accepted, admission, progress, predicted)
        waiting = Waiting(request, admission, queue.timeout_seconds, parts.open.waits, interruption)
        progress.waiting = waiting
        forwarding = Forwarding(parts, admission, accepted, request, waiting=waiting, send=send, connection=connection)
        try:
            with waiting:
                started = time.perf_counter()
                parts.objectives.arrived(request)
                admission.enter(request, accepted.arrival)
                admission.pump(accepted.arrival)
                parts.metrics.decision.observe(time.perf_counter() - started)
                parts.waker.set()
                await progress.admission
                await forwarding.run()
        finally:
            forwarding.close()
            parts.waker.set()

    async def _predict(self, accepted: Accepted, admission: Admission) -> RunPrediction | None:
        """Predict a run by its first request. Raises a refusal if others have filled the queue meanwhile."""
        learning, parsed, books = accepted.application.learning, accepted.parsed, admission.books
        application = accepted.application.id
        if learning is None or books.runs.is_open(accepted.tenant, application, accepted.run, accepted.arrival):
            return None
        first = FirstRequest(
            parsed.text,
            parsed.prompt_bytes,
            self._prompt_tokens(application, parsed),
            parsed.max_tokens,
            parsed.messages,
            parsed.sequences,
        )
        predicted = await self._parts.learner.predicting.predict(learning, first, accepted.run or uuid.uuid4().hex)
        books.check_room(accepted.tenant, application, parsed.sequences)
        return predicted

    def _look_ahead(self, accepted: Accepted, in_effect: InEffect) -> None:
        """Note what is expected beyond an objective. Raises a refusal if the application asks for it."""
        parts, parsed, application = self._parts, accepted.parsed, accepted.application
        beyond = beyond_objective(
            in_effect.config,
            application,
            in_effect.admission,
            prompt=self._prompt_tokens(application.id, parsed),
            max_tokens=parsed.max_tokens,
            streamed=parsed.stream,
            now=accepted.arrival,
        )
        if beyond is None:
            return
        accepted.beyond = beyond
        parts.metrics.beyond_objective.labels(accepted.tenant, application.id, beyond.action.value).inc()
        if beyond.action is BeyondObjective.REFUSE:
            parts.objectives.refused(application.id, beyond.expected, accepted.arrival)
            raise beyond.refusal

    def _prompt_tokens(self, application: ApplicationId, parsed: ParsedBody) -> Tokens:
        """The tokens of the prompts, estimated if only the engine can count them."""
        if parsed.prompt_tokens is not None:
            return parsed.prompt_tokens
        return self._parts.tokens_per_byte.estimate(application, parsed.prompt_bytes)

    def _track(
        self, accepted: Accepted, admission: Admission, observer: RequestProgress, predicted: RunPrediction | None
    ) -> TrackedRequest:
        parts, parsed, engine = self._parts, accepted.parsed, admission.engine
        application = accepted.application
        tokens = self._prompt_tokens(application.id, parsed)
        each = parsed.longest_prompt or -(-tokens // parsed.prompts)
        longest = engine.longest or engine.kv_tokens or each
        room = max(1, longest - each)
        cost = None if predicted is None else predicted.predicted_cost
        run = admission.books.runs.enter(accepted.tenant, application, accepted.run, accepted.arrival, cost)
        if predicted is not None:
            parts.learner.lessons.run_began(run, predicted)
        return TrackedRequest(
            id=RequestId(uuid.uuid4().hex),
            tenant=accepted.tenant,
            application=application.id,
            run=run,
            asks=RequestShape(
                max_tokens=room if parsed.max_tokens is None else min(parsed.max_tokens, room),
                fixed_output=parsed.fixed_output,
                streamed=parsed.stream,
                prompts=parsed.prompts,
                sequences=parsed.sequences,
            ),
            account=TokenAccount(min(tokens, parsed.prompts * longest), prompt_exact=parsed.prompt_tokens is not None),
            timing=Timing(accepted.arrival),
            observer=observer,
            boosted_for=parts.objectives.boosted_for(application.id)
            if accepted.beyond is None or not accepted.beyond.deferred
            else None,
        )
