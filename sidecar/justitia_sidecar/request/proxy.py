"""Takes a completion through the sidecar: accept, wait, forward (`forwarding.py`). Plain ASGI, without a framework.

The body goes to the engine as it came, with the tenant's cache salt added. If the client goes away, its request is
cancelled at whatever stage; the engine's connection is closed, which frees the request's KV space.
"""

import time
import uuid

from justitia_api.config import ApplicationConfig
from justitia_predictor.features import FirstRequest
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.bounds import check_fits
from justitia_sidecar.admission.pool_runs import name_of
from justitia_sidecar.admission.request import RequestShape, Timing, TokenAccount, TrackedRequest
from justitia_sidecar.current import InEffect
from justitia_sidecar.identity import recognition
from justitia_sidecar.identity.salt import salted
from justitia_sidecar.learning.prediction import RunPrediction
from justitia_sidecar.objectives.beyond import beyond_objective
from justitia_sidecar.pool.peers import Expected
from justitia_sidecar.refusals import draining, engine_unavailable
from justitia_sidecar.request.accepted import Accepted, RequestProgress
from justitia_sidecar.request.asgi import Connection, Send, connection_of, until_disconnect
from justitia_sidecar.request.body import ParsedBody, parse_body
from justitia_sidecar.request.forwarding import Forwarding
from justitia_sidecar.request.incoming import Incoming
from justitia_sidecar.request.parts import Parts
from justitia_sidecar.request.reading import Body
from justitia_sidecar.request.waiting import Interruption, Waiting
from justitia_vocabulary.objectives import BeyondObjective
from justitia_vocabulary.units import ApplicationId, RequestId, TenantId, Tokens


class Proxy:
    """Serves requests by the engine beside this sidecar."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def serve(self, incoming: Incoming, body: Body) -> None:
        """Serve a request whose body may have been read. Raises a refusal, and ClientGoneError."""
        parts = self._parts
        async with Interruption() as interruption:
            body.give_way = interruption.refuse
            self._check_open(incoming.tenant, self.application(incoming))
            await self.read(incoming, body)
            accepted = self._accept(incoming, body)
            expected = self._expected(accepted)
            left = expected.left_to(parts.peers.own)
            with parts.metering.reserving(incoming.tenant, expected.all), parts.peers.serving(left):
                completing = self._complete(accepted, incoming.send, connection_of(incoming.scope), interruption)
                await until_disconnect(incoming.receive, completing)

    async def read(self, incoming: Incoming, body: Body) -> None:
        """Read the body, unless it has been read. Raises a refusal, and ClientGoneError."""
        if body.whole_at is None:
            most = self._parts.current.configured().config.queue.maximum_body_bytes
            await body.read(incoming.scope, incoming.receive, most)
            body.whole_at = self._parts.clock() - (incoming.waited or 0.0)

    def application(self, incoming: Incoming) -> ApplicationConfig:
        """The application of a request. Raises a refusal if the tenant has no such one."""
        directory = self._parts.current.configured().directory
        return directory.application(incoming.tenant, incoming.application, incoming.headers)

    # Accepting.

    def _check_open(self, tenant: TenantId, application: ApplicationConfig, sequences: int = 1) -> None:
        """Raises a refusal if a request of the application would be refused whatever its body says."""
        parts = self._parts
        if parts.open.draining:
            raise draining()
        admission = parts.current.configured().admission
        parts.metering.check(tenant)
        admission.books.check_room(tenant, application.id, sequences)

    def _accept(self, incoming: Incoming, body: Body) -> Accepted:
        parts, tenant, headers = self._parts, incoming.tenant, incoming.headers
        in_effect = parts.current.configured()
        parsed = parse_body(incoming.endpoint, body.content, several=parts.order.in_engine)
        in_effect.models.check(tenant, parsed.model)
        application = self.application(incoming)
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
        return Accepted(
            tenant=tenant,
            application=application,
            parsed=parsed,
            body=body,
            headers=incoming.scope["headers"],
            run=run,
            ends_run=ends,
            endpoint=incoming.endpoint,
            arrival=now,
            since=now if body.whole_at is None else body.whole_at,
        )

    def _expected(self, accepted: Accepted) -> Expected:
        application, parsed = accepted.application.id, accepted.parsed
        outputs = self._parts.current.configured().admission.books.outputs
        output = outputs.expect(application, parsed.max_tokens)
        name = None if accepted.run is None else name_of((accepted.tenant, application, accepted.run))
        return Expected(
            self._prompt_tokens(application, parsed),
            parsed.sequences * output,
            None if name is None else self._parts.peers.prefix(name),
        )

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
        waiting = Waiting(
            request,
            admission,
            queue.timeout_seconds,
            already=accepted.arrival - accepted.since,
            open_waits=parts.open.waits,
            interruption=interruption,
        )
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
            timing=Timing(accepted.since),
            observer=observer,
            boosted_for=parts.objectives.boosted_for(application.id)
            if accepted.beyond is None or not accepted.beyond.deferred
            else None,
        )
