"""Takes completions in: each is served by the engine beside this sidecar, or by another one of the pool.

A client's request goes to the engine that has its run's prefix, or that begins it sooner. It comes back if that engine
does not serve it, and goes on if this one cannot any more, as long as nobody may have begun it. What another sidecar
has passed on is served here, or handed back.
"""

import asyncio

from justitia_api.wire import HandedBack, Refusal
from justitia_sidecar.limits.pacing import Pace
from justitia_sidecar.pool.peers import Expected, Peer
from justitia_sidecar.refusals import RefusalError, engine_unavailable
from justitia_sidecar.request.asgi import ClientGoneError, send_answer, until_disconnect
from justitia_sidecar.request.elsewhere import Elsewhere, HandedBackError, handed_back
from justitia_sidecar.request.expecting import declared_size, expected_unread
from justitia_sidecar.request.incoming import Incoming
from justitia_sidecar.request.parts import Parts
from justitia_sidecar.request.proxy import Proxy
from justitia_sidecar.request.reading import Body
from justitia_sidecar.request.waiting import Interruption

REFUSALS_A_SECOND, IMMEDIATE_REFUSALS = 50.0, 100
"""The pace of refusals to a tenant."""

_OF_ANOTHER_CONFIGURATION = {Refusal.UNKNOWN_APPLICATION, Refusal.AMBIGUOUS_APPLICATION, Refusal.MODEL_NOT_FOUND}
"""Refusals of what is new, by a sidecar that does not have the newest configuration yet."""


class Entry:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._proxy = Proxy(parts)
        self._elsewhere = Elsewhere(parts.peers, parts.peer_client, parts.held, parts.metrics)
        self._pace = Pace(REFUSALS_A_SECOND, IMMEDIATE_REFUSALS)

    async def serve(self, incoming: Incoming) -> None:
        parts = self._parts
        parts.open.opened()
        body = Body(parts.held, incoming.tenant)
        try:
            await self._serve(incoming, body)
        except RefusalError as refusal:
            body.let_go()
            await self._refuse(incoming, refusal)
        except ClientGoneError:
            pass
        finally:
            body.let_go()
            parts.open.closed()

    async def _serve(self, incoming: Incoming, body: Body) -> None:
        if incoming.passed_on or not self._elsewhere.possible:
            await self._proxy.serve(incoming, body)
            return
        body.keep = True
        expected, tried = self._expected(incoming), set[Peer]()
        refused: RefusalError | None = None
        stays = incoming.picked and self._parts.peers.takes()
        peer = None if stays else self._elsewhere.better(expected)
        if peer is None:
            try:
                await self._proxy.serve(incoming, body)
                return
            except RefusalError as refusal:
                if not refusal.elsewhere or (peer := self._elsewhere.other(tried)) is None:
                    raise
                refused = refusal
        await self._read(incoming, body)
        while peer is not None:
            if not body.content:  # its copy has given way
                raise refused or engine_unavailable()
            tried.add(peer)
            waited = self._parts.clock() - (body.whole_at or 0.0)
            try:
                await self._elsewhere.serve(incoming, body, peer, expected.left_to(peer.writer), waited)
                return
            except HandedBackError:
                peer = None if self._parts.peers.takes() else self._elsewhere.other(tried)
        await self._proxy.serve(incoming, body)

    def _expected(self, incoming: Incoming) -> Expected:
        """What is expected of a request before it is read."""
        application, headers = self._proxy.application(incoming).id, incoming.headers
        return expected_unread(self._parts, incoming.tenant, application, headers, declared_size(headers))

    async def _read(self, incoming: Incoming, body: Body) -> None:
        async with Interruption() as interruption:
            body.give_way = interruption.refuse
            await self._proxy.read(incoming, body)

    async def _refuse(self, incoming: Incoming, refusal: RefusalError) -> None:
        self._parts.metrics.refusals.labels(refusal.refusal.value).inc()
        headers = refusal.headers
        if incoming.passed_on and refusal.elsewhere:
            headers = [*headers, handed_back(HandedBack.ENGINE)]
        elif incoming.passed_on and refusal.refusal in _OF_ANOTHER_CONFIGURATION:
            headers = [*headers, handed_back(HandedBack.REQUEST)]
        delay = self._pace.delay(incoming.tenant, self._parts.clock())
        if delay and not self._parts.open.draining:
            await until_disconnect(incoming.receive, asyncio.sleep(delay))
        await send_answer(incoming.send, refusal.refusal.status, headers, refusal.body)
