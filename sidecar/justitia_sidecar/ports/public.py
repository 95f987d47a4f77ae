"""The port that clients see: OpenAI's API.

Completions go straight to the proxy; FastAPI serves the rest: models, the end of a run, the documentation, errors.
"""

import asyncio

import msgspec
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from justitia_api.wire import Refusal
from justitia_sidecar.engine.client import EngineError
from justitia_sidecar.limits.pacing import Pace
from justitia_sidecar.refusals import RefusalError, engine_unavailable, shown, too_many_open
from justitia_sidecar.request.asgi import Receive, Scope, Send, send_answer, until_disconnect
from justitia_sidecar.request.entry import Entry
from justitia_sidecar.request.incoming import completion
from justitia_sidecar.request.parts import Parts
from justitia_vocabulary.units import ApplicationId

_OPENAI_REFERENCE = "https://platform.openai.com/docs/api-reference"

WRONG_KEYS_A_SECOND, IMMEDIATE_WRONG_KEYS = 20.0, 50
"""The pace of refusals to an address."""

_DESCRIPTION = f"""
OpenAI's API in front of a pool of engines. `POST /v1/chat/completions` and `POST /v1/completions`
([reference]({_OPENAI_REFERENCE})) also exist under
`/applications/{{namespace}}/{{name}}/v1`, which names the application.

Runs: requests with the same `x-justitia-run` (or `metadata.run_id`) belong to one run;
`x-justitia-run-end: true` on its last one ends it. `n` > 1 and several prompts in one body need a pool
with `enforcement: Engine`; elsewhere one request is one sequence.
"""


class PublicApp:
    """The ASGI application of the public port. Without a valid key nothing is served, and no body is read."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._entry = Entry(parts)
        self._api = build_api(parts)
        self._pace = Pace(WRONG_KEYS_A_SECOND, IMMEDIATE_WRONG_KEYS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            tenant = self._parts.current.tenant(dict(scope["headers"]).get(b"authorization"))
            authenticated = scope.get("state", {}).get("authenticated")
            if authenticated is not None and not authenticated(tenant):
                raise too_many_open()
        except RefusalError as refusal:
            await self._refuse(refusal, scope, receive, send)
            return
        if (incoming := completion(scope, receive, send, tenant)) is not None:
            await self._entry.serve(incoming)
            return
        await self._api(scope, receive, send)

    async def _refuse(self, refusal: RefusalError, scope: Scope, receive: Receive, send: Send) -> None:
        self._parts.metrics.refusals.labels(refusal.refusal.value).inc()
        address, _ = scope.get("client") or ("", 0)
        if delay := self._pace.delay(address, self._parts.clock()):
            await until_disconnect(receive, asyncio.sleep(delay))
        headers = [*refusal.headers, (b"connection", b"close")]
        await send_answer(send, refusal.refusal.status, headers, refusal.body)


def build_api(parts: Parts) -> FastAPI:
    api = FastAPI(title="Justitia", description=_DESCRIPTION, docs_url=None, redoc_url=None)

    @api.exception_handler(RefusalError)
    async def refuse(request: Request, refusal: RefusalError) -> Response:
        parts.metrics.refusals.labels(refusal.refusal.value).inc()
        headers = {name.decode(): value.decode() for name, value in refusal.headers}
        return Response(refusal.body, refusal.refusal.status, headers)

    @api.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        body = {"message": f"{request.method} {request.url.path}: {error.detail}", "type": "invalid_request_error"}
        content = msgspec.json.encode({"error": {**body, "param": None, "code": None}})
        return Response(content, error.status_code, error.headers, "application/json")

    @api.get("/v1/models", summary="The pool's model, and the adapters that the caller may use")
    @api.get("/applications/{namespace}/{name}/v1/models", include_in_schema=False)
    async def models(request: Request) -> Response:
        tenant = parts.current.tenant(_authorization(request))
        models = parts.current.configured().models
        try:
            return Response(models.listed(tenant, await parts.engine.models()), media_type="application/json")
        except (EngineError, msgspec.DecodeError):
            raise engine_unavailable() from None

    @api.delete("/v1/runs/{run}", status_code=204, summary="End a run")
    @api.delete("/applications/{namespace}/{name}/v1/runs/{run}", status_code=204, include_in_schema=False)
    async def end_run(request: Request, run: str) -> None:
        tenant = parts.current.tenant(_authorization(request))
        in_effect = parts.current.configured()
        names = request.path_params
        path = f"{names['namespace']}/{names['name']}" if "namespace" in names else None
        application = in_effect.directory.application(tenant, path, dict(request.scope["headers"]))
        name: ApplicationId = application.id
        if not in_effect.admission.books.runs.end(tenant, name, run, parts.clock()):
            raise RefusalError(
                Refusal.RUN_NOT_FOUND, f"The application {name} has no open run {shown(run)}: it may have ended."
            )

    return api


def _authorization(request: Request) -> bytes | None:
    value = request.headers.get("authorization")
    return None if value is None else value.encode("latin-1")
