"""What gateways say on their streams, one for each request, and who may hold one.

A stream is a guest of the gateway's address until its head names a tenant by a valid key; then it is that tenant's. If
all seats are taken, one gives way as connections do (`ports/connections.py`). A request whose bytes do not pass here
goes on when its stream gives way, and another one fails.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc

from justitia_sidecar.picker.link import SidecarGoneError, SidecarLink
from justitia_sidecar.picker.replies import (
    Request,
    Response,
    ends_request,
    full_duplex,
    passed,
    picked,
    read_head,
    refused,
)
from justitia_sidecar.pool.asks import Pick, Refuse
from justitia_sidecar.ports.connections import Seats
from justitia_sidecar.refusals import RefusalError, engine_unavailable, too_many_open
from justitia_vocabulary.units import Seconds, TenantId

HEAD_WITHIN: Seconds = 10.0
NO_SEAT = "too many requests are open here: retry later"


class Stream:
    """A gateway's request. `harmless`: it goes on if the stream ends in good order."""

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self._task = task
        self.gave_way = False
        self.harmless = False

    def give_way(self) -> None:
        self.gave_way = True
        self._task.cancel()


class Streams(external_processor_pb2_grpc.ExternalProcessorServicer):  # type: ignore[misc]
    def __init__(self, link: SidecarLink, seats: Seats[Stream]) -> None:
        self._link = link
        self._seats = seats

    async def Process(self, requests: object, context: "grpc.aio.ServicerContext[Request, Response]") -> None:
        task = asyncio.current_task()
        assert task is not None
        stream = Stream(task)
        self._end(self._seats.enter(stream, context.peer().rpartition(":")[0]))
        try:
            await self._serve(stream, context)
        except asyncio.CancelledError:
            if not stream.gave_way:
                raise
            task.uncancel()
            if not stream.harmless:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, NO_SEAT)
        finally:
            self._seats.leave(stream)

    async def _serve(self, stream: Stream, context: "grpc.aio.ServicerContext[Request, Response]") -> None:
        try:
            async with asyncio.timeout(HEAD_WITHIN):
                first = await context.read()
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"no head of a request within {HEAD_WITHIN:g} s")
        if first is grpc.aio.EOF:
            return
        if not first.HasField("request_headers"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a stream has to begin with the head of a request")
        head = read_head(first)
        try:
            answer = await self._link.ask(head.path, head.size, head.headers, head.allowed)
        except SidecarGoneError:
            await context.write(refused(_refuse(engine_unavailable())))
            return
        if isinstance(answer, Refuse):
            await context.write(refused(answer))
            return
        try:
            await self._follow(stream, context, first, picked(answer.endpoint, head.size), answer)
        finally:
            self._link.over(answer.id)

    async def _follow(
        self,
        stream: Stream,
        context: "grpc.aio.ServicerContext[Request, Response]",
        first: Request,
        reply: Response,
        pick: Pick,
    ) -> None:
        """Say where the request goes, and hear of it until it is over."""
        if not self._seated(stream, pick.tenant):
            await context.write(refused(_refuse(too_many_open())))
            return
        duplex = full_duplex(first)
        stream.harmless = not any(duplex)
        if first.request_headers.end_of_stream or not duplex[0]:
            self._link.handed_on(pick.id)
        replies = [reply]
        while (message := await _exchange(context, replies)) is not grpc.aio.EOF:
            self._seats.heard(stream)
            replies = list(passed(message, duplex))
            if duplex[0] and ends_request(message):
                self._link.handed_on(pick.id)

    def _seated(self, stream: Stream, tenant: str) -> bool:
        if not tenant:
            return True
        loser = self._seats.authenticate(stream, TenantId(tenant))
        if loser is stream:
            return False
        self._end(loser)
        self._seats.over(stream)
        return True

    @staticmethod
    def _end(loser: Stream | None) -> None:
        if loser is not None:
            loser.give_way()


async def _exchange(context: "grpc.aio.ServicerContext[Request, Response]", replies: Sequence[Response]) -> Request:
    """Send replies, and read the next message meanwhile. It may be EOF."""
    for reply in replies[:-1]:
        await context.write(reply)
    if not replies:
        return await context.read()
    _, message = await asyncio.gather(context.write(replies[-1]), context.read())
    return message


def _refuse(refusal: RefusalError) -> Refuse:
    return Refuse(0, refusal.refusal.status, refusal.headers, refusal.body)
