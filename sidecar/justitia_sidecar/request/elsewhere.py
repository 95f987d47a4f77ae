"""Has a request served by another engine of the pool: passes its bytes on, and those of the answer back.

The other sidecar does all that this one would have done, but for what a client has not read, which is held here. A
request that was not begun there may come back; one that may have been begun is not sent again.
"""

from enum import StrEnum

import aiohttp
import structlog

from justitia_api import wire
from justitia_api.wire import HandedBack
from justitia_sidecar.engine.client import EngineAbsentError, EngineError
from justitia_sidecar.limits.held import HeldBytes
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.pool.passing import PeerClient
from justitia_sidecar.pool.peers import Expected, Peer, Peers
from justitia_sidecar.refusals import Headers, RefusalError, broken_off, engine_unavailable
from justitia_sidecar.request.asgi import connection_of, until_disconnect
from justitia_sidecar.request.incoming import Incoming
from justitia_sidecar.request.outbox import Outbox
from justitia_sidecar.request.reading import Body
from justitia_vocabulary.units import Seconds, Tokens

log = structlog.get_logger("justitia.sidecar")

_PASSED_ON = frozenset(
    name.encode()
    for name in (
        "content-type",
        "accept",
        "traceparent",
        "tracestate",
        wire.APPLICATION_HEADER,
        wire.RUN_HEADER,
        wire.RUN_END_HEADER,
        *wire.RUN_ALIAS_HEADERS,
    )
)
_OF_THE_CONNECTION = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"date", b"server"})


class PassedOn(StrEnum):
    """What became of a request that was passed on. The label of the metric."""

    ANSWERED = "answered"
    HANDED_BACK = "handed_back"
    FAILED = "failed"
    ABORTED = "aborted"


class HandedBackError(Exception):
    """The other engine does not serve the request, and has not begun it."""


class Elsewhere:
    """`client` is None if this sidecar has no credentials for others."""

    def __init__(self, peers: Peers, client: PeerClient | None, held: HeldBytes, metrics: SidecarMetrics) -> None:
        self._peers = peers
        self._client = client
        self._held = held
        self._metrics = metrics

    def better(self, request: Expected) -> Peer | None:
        """The engine that is to serve the request. None: the one here is."""
        return None if self._client is None else self._peers.better(request)

    def other(self, without: set[Peer]) -> Peer | None:
        """Another engine for a request that this one does not serve."""
        return None if self._client is None else self._peers.best(without)

    @property
    def possible(self) -> bool:
        return self._client is not None and self._peers.known

    async def serve(self, incoming: Incoming, body: Body, peer: Peer, tokens: Tokens, waited: Seconds) -> None:
        """Have the request served by that engine. Raises HandedBackError, and a refusal."""
        outcome = PassedOn.ABORTED

        async def serve() -> None:
            nonlocal outcome
            await self._serve(incoming, body, peer, waited)
            outcome = PassedOn.ANSWERED
            self._peers.passed_on += 1

        try:
            with self._peers.sending(peer, tokens):
                await until_disconnect(incoming.receive, serve())
        except HandedBackError:
            outcome = PassedOn.HANDED_BACK
            raise
        except RefusalError:
            outcome = PassedOn.FAILED
            raise
        finally:
            self._metrics.passed_on.labels(outcome).inc()

    async def _serve(self, incoming: Incoming, body: Body, peer: Peer, waited: Seconds) -> None:
        assert self._client is not None
        headers = passed_headers(incoming, waited)
        body.pin()
        try:
            response = await self._client.send(peer, incoming.scope["path"], body.content, headers, body.written)
        except EngineAbsentError as error:
            log.warning("a sidecar of the pool is not reached: requests go elsewhere", reason=str(error))
            peer.does_not_take()
            raise HandedBackError from None
        except EngineError as error:
            log.warning("a request was lost on its way to another sidecar", reason=str(error))
            raise engine_unavailable(begun=True) from None
        async with response:
            if (what := response.headers.get(wire.HANDED_BACK_HEADER)) is not None:
                if what != HandedBack.REQUEST:
                    peer.does_not_take()
                raise HandedBackError
            body.let_go()
            await self._answer(incoming, response)

    async def _answer(self, incoming: Incoming, response: aiohttp.ClientResponse) -> None:
        connection = connection_of(incoming.scope)
        outbox = Outbox(self._held, incoming.tenant, incoming.send, connection)
        try:
            await outbox.begin(response.status, _head(response))
            end, last = b"\n\n", b""
            try:
                async for data in response.content.iter_any():
                    await outbox.write(data)
                    end = (end + data)[-2:]
            except aiohttp.ClientError as error:
                log.warning("answer broken off: the other sidecar failed", reason=repr(error))
                if end != b"\n\n" or not response.headers.get("content-type", "").startswith("text/event-stream"):
                    connection.abort()
                    return
                last = broken_off()
            await outbox.finish(last)
        finally:
            outbox.close()


def _head(response: aiohttp.ClientResponse) -> Headers:
    lower = ((name.lower(), value) for name, value in response.raw_headers)
    return [(name, value) for name, value in lower if name not in _OF_THE_CONNECTION]


def handed_back(what: HandedBack) -> tuple[bytes, bytes]:
    """The header of an answer to another sidecar, which serves the request elsewhere."""
    return wire.HANDED_BACK_HEADER.encode(), what.encode()


def passed_headers(incoming: Incoming, waited: Seconds) -> list[tuple[str, str]]:
    """Those of the client's headers that decide anything, and whose request it is."""
    kept = [(name.decode(), value.decode("latin-1")) for name, value in incoming.scope["headers"] if name in _PASSED_ON]
    return [*kept, (wire.TENANT_HEADER, incoming.tenant), (wire.WAITED_HEADER, f"{waited:.6f}")]
