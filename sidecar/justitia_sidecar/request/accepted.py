"""A request that is accepted, and the observer that hears what becomes of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from justitia_api.config import ApplicationConfig
from justitia_sidecar.admission.bounds import queue_full
from justitia_sidecar.admission.metering import Metering
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.objectives.beyond import Beyond
from justitia_sidecar.request.body import Endpoint, ParsedBody
from justitia_sidecar.request.reading import Body
from justitia_sidecar.request.waiting import Waiting
from justitia_vocabulary.units import Seconds, TenantId, Tokens


@dataclass(slots=True)
class Accepted:
    """A request that may wait. `body` is what the engine gets: the client's, with the tenant's cache salt. It waits
    here since its `arrival`, and in the pool `since` it came in. `beyond`: what it is expected to show beyond its
    application's objectives.
    """

    tenant: TenantId
    application: ApplicationConfig
    parsed: ParsedBody
    body: Body
    headers: list[tuple[bytes, bytes]]
    run: str | None
    ends_run: bool
    endpoint: Endpoint
    arrival: Seconds
    since: Seconds
    beyond: Beyond | None = None


class RequestProgress:
    """Ends the wait of a request when it has begun or is displaced, and counts what is reported of it later."""

    waiting: Waiting

    def __init__(
        self, body: Body, most_queued: int, metrics: SidecarMetrics, metering: Metering, clock: Callable[[], Seconds]
    ) -> None:
        self.admission: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._body = body
        self._most_queued = most_queued
        self._metrics = metrics
        self._metering = metering
        self._clock = clock

    def admitted(self, request: TrackedRequest) -> None:
        if not self.admission.done():
            self.admission.set_result(None)

    def begun(self, request: TrackedRequest) -> None:
        self._metrics.queue_delay.labels(request.tenant, request.application).observe(request.age(self._clock()))
        self.waiting.over()
        self._body.begun()

    def displaced(self, request: TrackedRequest) -> None:
        self.waiting.refuse(queue_full(self._most_queued))

    def estimated(self, request: TrackedRequest, output: Tokens) -> None:
        self._metrics.estimated_tokens.labels(request.tenant, request.application).inc(output)

    def counted(self, request: TrackedRequest) -> None:
        self._metering.count(request)
