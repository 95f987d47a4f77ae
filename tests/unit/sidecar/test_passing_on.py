"""Requests that are passed on to another sidecar, which misbehaves in every way; and those that come from one."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from justitia_api.config import ApplicationConfig, KeyTable
from justitia_api.wire import HANDED_BACK_HEADER, PICKED_HEADER, TENANT_HEADER, WAITED_HEADER
from justitia_sidecar.engine.client import EngineClient, post
from justitia_sidecar.engine.view import EngineView
from justitia_sidecar.limits.held import HeldBytes, HeldKind, Holding
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.pool.passing import LOST_WITHIN, PeerClient, socket_that_notices
from justitia_sidecar.pool.peers import Expected, Peer, Peers
from justitia_sidecar.pool.updates import Load, WriterId
from justitia_sidecar.ports.peer import PeerApp
from justitia_sidecar.ports.serving import Server, server_config
from justitia_sidecar.refusals import RefusalError
from justitia_sidecar.request.elsewhere import PassedOn
from justitia_sidecar.request.reading import Body
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.units import TenantId
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.sidecar_client import BODY, PEPPER, Client, assert_nothing_left, engine_answers, give_key, pool

MUCH_TO_DO = 10**6
"""Tokens that the engine here has, so that all others begin a request sooner."""


class PlainPeerClient(PeerClient):
    """Without TLS."""

    async def send(
        self, peer: Peer, path: str, body: bytes, headers: list[tuple[str, str]], on_written: Callable[[], None]
    ) -> aiohttp.ClientResponse:
        return await post(self._session, f"http://{peer.load.address}{path}", body, headers, on_written)


@pytest.fixture
async def peer() -> AsyncIterator[MisbehavingEngine]:
    """What stands for the other sidecar."""
    async with MisbehavingEngine().serving() as peer:
        yield peer


@pytest.fixture
async def sidecar(engine: MisbehavingEngine, peer: MisbehavingEngine) -> AsyncIterator[Sidecar]:
    """One that has much to do, and knows of another that has nothing to do."""
    async with EngineClient.session() as session:
        peers = Peers("here", lambda: 0.0)  # so that what was heard stays fresh
        sidecar = Sidecar(
            EngineClient(engine.url, session),
            SidecarMetrics(),
            time.monotonic,
            peers=peers,
            peer_client=PlainPeerClient(session),
        )
        give_key(sidecar)
        sidecar.parts.current.put_config(pool())
        await engine_answers(sidecar)
        peers.heard(WriterId("other"), Load(peer.url.removeprefix("http://"), 0, takes=True))
        with peers.serving(MUCH_TO_DO):
            yield sidecar


def outcomes(sidecar: Sidecar) -> dict[PassedOn, int]:
    counted = {outcome: sidecar.parts.metrics.passed_on.labels(outcome)._value.get() for outcome in PassedOn}
    return {outcome: int(count) for outcome, count in counted.items() if count}


async def test_it_goes_with_whose_it_is_and_what_decides_and_the_answer_comes_back_as_it_is(
    sidecar: Sidecar, peer: MisbehavingEngine, engine: MisbehavingEngine
) -> None:
    peer.behaviour = Misbehaviour.GARBAGE
    forged = {b"x-justitia-run": b"r1", b"cookie": b"secret", TENANT_HEADER.encode(): b"another"}
    client = await Client(sidecar, headers=forged, path="/applications/ns/a/v1/completions").run()
    assert client.status == 404  # the fake knows no such path
    client = await Client(sidecar, headers=forged).run()
    assert b"data: {not json\n\n: comment\n\n\xff\xfe\n\n" in client.answer
    (headers, body) = peer.received[-1]
    assert json.loads(body) == BODY
    assert headers[TENANT_HEADER] == "gold"
    assert 0 <= float(headers[WAITED_HEADER]) < 60
    assert headers["x-justitia-run"] == "r1"
    assert not {"cookie", "authorization"} & headers.keys()
    assert not engine.received
    assert outcomes(sidecar) == {PassedOn.ANSWERED: 2}
    assert sidecar.parts.held.total == 0
    assert_nothing_left(sidecar)


async def test_one_that_is_not_there_gets_nothing_more_and_the_request_is_served_here(
    sidecar: Sidecar, engine: MisbehavingEngine
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        sidecar.parts.peers.heard(WriterId("other"), Load(f"127.0.0.1:{nobody.getsockname()[1]}", 0, takes=True))
        for _ in range(2):
            client = await Client(sidecar).run()
            assert client.answer.endswith(b"data: [DONE]\n\n")
    assert len(engine.received) == 2
    assert outcomes(sidecar) == {PassedOn.HANDED_BACK: 1}
    assert_nothing_left(sidecar)


@pytest.mark.parametrize("size", [b"7", b"9" * 5000, b"-1", b""])
async def test_what_an_endpoint_picker_has_picked_stays_whatever_is_said_of_its_size(
    sidecar: Sidecar, engine: MisbehavingEngine, size: bytes
) -> None:
    client = await Client(sidecar, headers={PICKED_HEADER.encode(): size}, chunked=True).run()
    assert client.answer.endswith(b"data: [DONE]\n\n")
    assert len(engine.received) == 1
    assert not outcomes(sidecar)


@pytest.mark.parametrize("behaviour", [Misbehaviour.DIES_BEFORE_ANSWER])
async def test_what_it_may_have_begun_is_sent_to_no_other(
    sidecar: Sidecar, peer: MisbehavingEngine, engine: MisbehavingEngine, behaviour: Misbehaviour
) -> None:
    peer.behaviour = behaviour
    client = await Client(sidecar).run()
    assert (client.status, client.code) == (503, "engine_unavailable")
    assert len(peer.received) == 1
    assert not engine.received
    assert outcomes(sidecar) == {PassedOn.FAILED: 1}
    assert_nothing_left(sidecar)


async def test_an_answer_that_breaks_off_between_events_ends_with_an_error(
    sidecar: Sidecar, peer: MisbehavingEngine
) -> None:
    peer.behaviour = Misbehaviour.DIES_MID_STREAM
    client = await Client(sidecar).run()
    assert client.status == 200
    last = client.answer.strip().split(b"\n\n")[-1]
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "engine_unavailable"
    assert_nothing_left(sidecar)


async def test_a_client_that_goes_away_is_gone_there_too(sidecar: Sidecar, peer: MisbehavingEngine) -> None:
    peer.behaviour = Misbehaviour.HANGS
    client = Client(sidecar)
    asked = asyncio.create_task(client.run())
    await client.first_chunk.wait()
    client.gone.set()
    await asked
    await peer.closed.wait()
    assert outcomes(sidecar) == {PassedOn.ABORTED: 1}
    assert_nothing_left(sidecar)


def test_a_connection_to_a_node_that_is_gone_ends_in_time() -> None:

    with socket_that_notices((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as made:
        idle, interval, times = (
            made.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert 0 < idle + interval * times <= LOST_WITHIN
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1000 * LOST_WITHIN


# What comes from another sidecar.


def passed_on(sidecar: Sidecar, body: dict[str, object] | None = None, **headers: str) -> Client:
    told = {TENANT_HEADER: "gold", WAITED_HEADER: "0.5", **headers}
    return Client(
        sidecar,
        body=json.dumps(BODY if body is None else body).encode(),
        headers={name.encode(): value.encode() for name, value in told.items() if value},
        app=PeerApp,
    )


def handed_back(client: Client) -> str | None:
    found = dict(client.sent[0]["headers"]).get(HANDED_BACK_HEADER.encode())
    return None if found is None else found.decode()


async def test_what_comes_from_another_is_served_here_however_much_there_is_to_do(
    sidecar: Sidecar, engine: MisbehavingEngine, peer: MisbehavingEngine
) -> None:
    client = await passed_on(sidecar).run()
    assert client.answer.endswith(b"data: [DONE]\n\n")
    assert len(engine.received) == 1
    assert not peer.received
    ages = sidecar.parts.metrics.queue_delay.labels("gold", "ns/a")
    assert ages._sum.get() >= 0.5


@pytest.mark.parametrize(
    "headers", [{TENANT_HEADER: ""}, {WAITED_HEADER: ""}, {WAITED_HEADER: "nan"}, {WAITED_HEADER: "-1"}]
)
async def test_without_whose_it_is_and_since_when_nothing_is_served(sidecar: Sidecar, headers: dict[str, str]) -> None:
    client = await passed_on(sidecar, **headers).run()
    assert client.status == 404


async def test_what_only_a_newer_configuration_has_is_handed_back_and_what_is_wrong_is_refused(
    sidecar: Sidecar,
) -> None:
    unknown = await passed_on(sidecar, **{TENANT_HEADER: "new"}).run()
    assert unknown.status == 400
    assert handed_back(unknown) == "request"
    wrong = await passed_on(sidecar, {**BODY, "max_tokens": -1}).run()
    assert wrong.status == 400
    assert handed_back(wrong) is None


async def test_a_sidecar_that_drains_hands_back(sidecar: Sidecar) -> None:
    await sidecar.parts.open.drain()
    client = await passed_on(sidecar).run()
    assert (client.status, client.code) == (503, "draining")
    assert handed_back(client) == "engine"


@asynccontextmanager
async def another(engine: MisbehavingEngine, sidecar: Sidecar) -> AsyncIterator[Sidecar]:
    """A second sidecar, with another engine, to which the first passes on."""
    async with EngineClient.session() as session:
        other = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), time.monotonic)
        other.parts.current.put_keys(KeyTable(pepper=PEPPER))
        other.parts.current.put_config(pool())
        await engine_answers(other)
        server = Server(server_config(PeerApp(other.parts)))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            sidecar.parts.peers.heard(WriterId("other"), Load(address, 0, takes=True))
            try:
                yield other
            finally:
                server.should_exit = True
                await serving


async def test_an_application_that_the_other_does_not_know_yet_is_served_here_and_others_go_on_there(
    sidecar: Sidecar, engine: MisbehavingEngine, peer: MisbehavingEngine
) -> None:
    async with another(peer, sidecar):
        old, new = (ApplicationConfig(namespace="ns", name=name, tenant="gold") for name in ("a", "new"))
        sidecar.parts.current.put_config(pool(generation=2, applications=(old, new)))
        client = await Client(sidecar, headers={b"x-justitia-application": b"ns/new"}).run()
        assert client.answer.endswith(b"data: [DONE]\n\n")
        assert (len(engine.received), len(peer.received)) == (1, 0)
        client = await Client(sidecar, headers={b"x-justitia-application": b"ns/a"}).run()
        assert client.answer.endswith(b"data: [DONE]\n\n")
        assert (len(engine.received), len(peer.received)) == (1, 1)


async def test_a_tenant_that_asks_for_models_that_are_not_there_keeps_nobody_from_other_engines(
    sidecar: Sidecar, engine: MisbehavingEngine, peer: MisbehavingEngine
) -> None:
    async with another(peer, sidecar):
        wrong = await Client(sidecar, body=json.dumps({**BODY, "model": "none"}).encode()).run()
        assert (wrong.status, wrong.code) == (404, "model_not_found")
        assert sidecar.parts.peers.better(Expected(0, 1)) is not None
        assert (await Client(sidecar).run()).status == 200
        assert (len(engine.received), len(peer.received)) == (0, 1)


async def test_one_that_drains_hands_back_and_gets_nothing_more(
    sidecar: Sidecar, engine: MisbehavingEngine, peer: MisbehavingEngine
) -> None:
    async with another(peer, sidecar) as other:
        await other.parts.open.drain()
        for _ in range(2):
            assert (await Client(sidecar).run()).status == 200
        assert (len(engine.received), len(peer.received)) == (2, 0)
        assert outcomes(sidecar) == {PassedOn.HANDED_BACK: 1}


async def test_where_the_engine_here_is_gone_its_requests_go_there(
    sidecar: Sidecar, engine: MisbehavingEngine, peer: MisbehavingEngine
) -> None:
    admission = sidecar.parts.current.configured().admission
    async with another(peer, sidecar) as other:
        with other.parts.peers.serving(10 * MUCH_TO_DO):
            sidecar.parts.peers.heard(WriterId("other"), replace_outstanding(sidecar, 10 * MUCH_TO_DO))
            admission.engine_told(EngineView(ready=False), 0.0)
            assert (await Client(sidecar).run()).status == 200
        assert (len(engine.received), len(peer.received)) == (0, 1)


def replace_outstanding(sidecar: Sidecar, tokens: int) -> Load:
    """What the other one says of itself, with so many tokens."""
    best = sidecar.parts.peers.best()
    assert best is not None
    return Load(best.load.address, tokens, takes=True)


# Copies of bodies.


def a_body(account: HeldBytes, refused: list[RefusalError], *, keep: bool) -> Body:
    body = Body(account, TenantId("gold"))
    body.keep, body.give_way = keep, refused.append
    body.change(b"x" * 60)
    body.pin()
    body.written()
    return body


def test_a_copy_of_what_was_sent_gives_way_first_and_nobody_hears_of_it() -> None:
    account, refused = HeldBytes(100), list[RefusalError]()
    body = a_body(account, refused, keep=True)
    assert body.content
    assert account.put(Holding(TenantId("silver"), HeldKind.BODY, lambda: None), 50)
    assert not body.content
    assert not refused
    assert account.total == 50


def test_a_copy_is_let_go_when_its_request_begins_and_none_is_kept_where_there_is_nobody_else() -> None:
    account, refused = HeldBytes(100), list[RefusalError]()
    body = a_body(account, refused, keep=True)
    body.begun()
    assert not body.content
    assert not a_body(account, refused, keep=False).content
    assert account.total == 0


def test_a_copy_that_is_sent_again_does_not_give_way_meanwhile() -> None:
    account, refused = HeldBytes(100), list[RefusalError]()
    body = a_body(account, refused, keep=True)
    body.pin()
    assert not account.put(Holding(TenantId("silver"), HeldKind.BODY, lambda: None), 50)
    assert body.content
