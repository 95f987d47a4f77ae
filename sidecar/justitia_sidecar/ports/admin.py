"""The port for the cluster: probes, metrics, status, queue, drain. Not for clients.

Paths that show single requests, or change anything, answer only to processes beside this one: the pod's containers, and
a user's shell on a laptop or in `kubectl exec`.
"""

import asyncio
from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST

from justitia_api.status import PoolStatus, QueueStatus
from justitia_sidecar.refusals import RefusalError
from justitia_sidecar.report.exposition import Exposition
from justitia_sidecar.report.queue import observe_queue
from justitia_sidecar.report.status import SidecarReport


def _from_beside(request: Request) -> None:
    if request.client is None or not ip_address(request.client.host).is_loopback:
        raise HTTPException(
            403, "this path answers to processes of this pod only: use `kubectl exec` or a port-forward"
        )


Beside = Annotated[None, Depends(_from_beside)]


def build_admin(report: SidecarReport) -> FastAPI:
    parts = report.parts
    current, open_requests = parts.current, parts.open
    admin = FastAPI(title="Justitia sidecar, admin", redoc_url=None)

    @admin.exception_handler(RefusalError)
    async def refuse(request: Request, refusal: RefusalError) -> Response:
        headers = {name.decode(): value.decode() for name, value in refusal.headers}
        return Response(refusal.body, refusal.refusal.status, headers)

    @admin.get("/healthz", summary="The process is alive")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @admin.get("/readyz", summary="Whether requests are served: configured, the engine answers, not draining")
    async def readyz(response: Response) -> dict[str, bool]:
        configured = current.in_effect is not None and current.keys is not None
        engine = current.in_effect is not None and current.in_effect.admission.engine.ready
        if not (configured and engine) or open_requests.draining:
            response.status_code = 503
        return {"configured": configured, "engine": engine, "draining": open_requests.draining}

    exposition = Exposition(parts.metrics.registry)

    async def pieces() -> AsyncIterator[bytes]:
        for piece in exposition.pieces():
            yield piece
            await asyncio.sleep(0)

    @admin.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        if current.keys is not None:
            for _ in report.set_gauges():
                await asyncio.sleep(0)
        return StreamingResponse(pieces(), media_type=CONTENT_TYPE_LATEST)

    @admin.get("/internal/status", summary="Tenants' shares, KV space, configuration in effect")
    async def status(_: Beside) -> PoolStatus:
        return report.status()

    @admin.get("/internal/queue", summary="The waiting requests in order, each with why it waits")
    async def queue(_: Beside) -> QueueStatus:
        return await observe_queue(current, parts.order, parts.clock)

    @admin.post("/internal/drain", summary="Refuse new requests; answers when those that have begun are over")
    async def drain(_: Beside) -> dict[str, int]:
        await open_requests.drain()
        return {"open_requests": open_requests.count}

    return admin
