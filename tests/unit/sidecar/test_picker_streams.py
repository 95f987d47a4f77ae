"""Streams of gateways: who may hold one, what becomes of a request whose stream gives way, what the sidecar hears."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest
from envoy.service.ext_proc.v3.external_processor_pb2_grpc import add_ExternalProcessorServicer_to_server

from justitia_api.config import ApplicationConfig, KeyEntry, KeyTable, TenantConfig, key_digest
from justitia_sidecar.engine.channel import listen
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.picker.link import SidecarLink
from justitia_sidecar.picker.streams import Stream, Streams
from justitia_sidecar.pool.peers import Peers
from justitia_sidecar.pool.updates import Load, WriterId
from justitia_sidecar.ports.connections import Seats
from justitia_sidecar.ports.picks import PickDoor
from justitia_sidecar.service import Sidecar
from support.misbehaving_engine import MisbehavingEngine
from support.picker_process import Gateway, head
from support.sidecar_client import PEPPER, engine_answers, pool

HERE, THERE = "10.0.0.1:8000", "10.0.0.2:8000"
SEATS = 16
TENANTS = ("one", "two")


def key_of(tenant: str) -> str:
    return f"sk-a-long-enough-key-of-{tenant}"


class Picked:
    """A picker with few seats, and its sidecar."""

    def __init__(self, sidecar: Sidecar, gateway: Gateway, link: SidecarLink) -> None:
        self.sidecar = sidecar
        self.gateway = gateway
        self.link = link

    async def begun(self, tenant: str = "one", duplex: bool = True, **headers: str) -> Any:
        """A stream that knows where its request goes."""
        message = head(authorization=f"Bearer {key_of(tenant)}", content_length="1000", **headers)
        mode = ProcessingMode.FULL_DUPLEX_STREAMED if duplex else ProcessingMode.BUFFERED
        message.protocol_config.request_body_mode = message.protocol_config.response_body_mode = mode
        stream = self.gateway.stream()
        await stream.write(message)
        stream.answer = await stream.read()
        return stream

    def counted(self) -> int:
        """Tokens that count as sent to the other pod."""
        (peer,) = self.sidecar.parts.peers.takers()
        return peer.sent

    async def eventually(self, tokens: int) -> None:
        async with asyncio.timeout(30):
            while True:
                if self.counted() == tokens:
                    return
                await asyncio.sleep(0.01)


def endpoint(answer: Any) -> str:
    return str(answer.dynamic_metadata["envoy.lb"]["x-gateway-destination-endpoint"])


@asynccontextmanager
async def picker(folder: Path) -> AsyncIterator[Picked]:
    """All requests go to another pod: the engine here does not answer."""
    async with MisbehavingEngine().serving() as engine, EngineClient.session() as session:
        loop = asyncio.get_running_loop()
        peers = Peers("here", loop.time, HERE)
        sidecar = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), loop.time, peers=peers)
        entries = tuple(KeyEntry(digest=key_digest(PEPPER, key_of(each).encode()), tenant=each) for each in TENANTS)
        sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER, keys=entries))
        tenants = tuple(TenantConfig(name=each, weight=1) for each in TENANTS)
        applications = tuple(ApplicationConfig(namespace="ns", name=each, tenant=each) for each in TENANTS)
        sidecar.parts.current.put_config(pool(tenants=tenants, applications=applications))
        await engine_answers(sidecar)
        sidecar.parts.open.draining = True
        peers.heard(WriterId("other"), Load("other", 0, takes=True, public=THERE))
        link = SidecarLink(folder / "picker.sock")
        server = grpc.aio.server()
        add_ExternalProcessorServicer_to_server(Streams(link, Seats[Stream](SEATS)), server)
        port = server.add_insecure_port("127.0.0.1:0")
        tasks = [
            asyncio.create_task(PickDoor(sidecar.parts).serve(listen(folder / "picker.sock"))),
            asyncio.create_task(link.connect_forever()),
        ]
        await server.start()
        try:
            async with asyncio.timeout(60):
                while not link.ready:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield Picked(sidecar, Gateway(channel), link)
        finally:
            await server.stop(None)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_request_counts_from_its_head_to_its_end_however_it_ends(tmp_path: Path) -> None:
    async with picker(tmp_path) as at:
        finished, cancelled = await at.begun(), await at.begun()
        assert endpoint(finished.answer) == THERE
        assert at.counted() == 600
        last = ProcessingRequest()
        last.request_body.body, last.request_body.end_of_stream = b"x", True
        await finished.write(last)
        piece = (await finished.read()).request_body.response.body_mutation.streamed_response
        assert (piece.body, piece.end_of_stream) == (b"x", True)
        await finished.done_writing()
        assert await finished.code() is grpc.StatusCode.OK
        await at.eventually(300)
        cancelled.cancel()
        await at.eventually(0)


async def test_what_a_tenant_opens_beyond_its_part_costs_its_own_streams(tmp_path: Path) -> None:
    async with picker(tmp_path) as at:
        other = [await at.begun("two") for _ in range(3)]
        streams = [await at.begun("one") for _ in range(4 * SEATS)]
        assert all(endpoint(stream.answer) == THERE for stream in streams)
        assert [stream.done() for stream in other] == [False] * 3
        assert [await stream.code() for stream in streams[:SEATS]] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * SEATS
        assert at.counted() <= SEATS * 300
        for stream in other:
            stream.cancel()
        for stream in streams:
            stream.cancel()
        await at.eventually(0)


async def test_a_request_whose_bytes_do_not_pass_here_goes_on_without_its_stream(tmp_path: Path) -> None:
    async with picker(tmp_path) as at:
        streams = [await at.begun("one", duplex=False) for _ in range(2 * SEATS)]
        assert [await stream.code() for stream in streams[: SEATS // 2]] == [grpc.StatusCode.OK] * (SEATS // 2)
        for stream in streams:
            stream.cancel()


async def test_a_sidecar_that_goes_and_comes_back_is_asked_again_and_requests_under_way_go_on(tmp_path: Path) -> None:
    async with picker(tmp_path) as at:
        under_way = await at.begun()
        (tmp_path / "picker.sock").unlink()
        door = PickDoor(at.sidecar.parts)
        assert at.link._write is not None
        at.link._write(b"\xff" * 8)  # nonsense: the sidecar closes the connection
        async with asyncio.timeout(30):
            while at.link.ready:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        refused = await at.begun()
        assert refused.answer.immediate_response.status.code == 503
        await at.eventually(0)
        task = asyncio.create_task(door.serve(listen(tmp_path / "picker.sock")))
        async with asyncio.timeout(30):
            while not at.link.ready:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert endpoint((await at.begun()).answer) == THERE
        message = ProcessingRequest()
        message.response_body.body = b"y"
        await under_way.write(message)
        assert (await under_way.read()).response_body.response.body_mutation.streamed_response.body == b"y"
        under_way.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("wrong", ["authorization", "nothing"])
async def test_without_a_valid_key_a_request_is_sent_on_and_counts_as_nothing(tmp_path: Path, wrong: str) -> None:
    async with picker(tmp_path) as at:
        answer = await at.gateway.pick(content_length="1000000", **{wrong: "Bearer x"})
        assert endpoint(answer) == THERE
        assert at.counted() == 0
