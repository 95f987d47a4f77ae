"""The log of a pool's updates on a real Valkey, while it is there, gone, empty, full, frozen or closed to us."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from cluster.certificates import Authority
from justitia_api.config import ServerKind, ValkeyConfig
from justitia_benchmarks.valkey_server import ValkeyServer, running_sentinel, running_valkey
from justitia_valkey import connection
from justitia_valkey.connection import ValkeyError
from justitia_valkey.log import UpdateLog
from support.serving import eventually

POOL = "ns/pool"
KEY = f"justitia:{{{POOL}}}:updates"


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    with running_valkey(tmp_path) as server:
        yield server


def of(server: ValkeyServer, kind: ServerKind = ServerKind.SERVER, primary: str = "", pool: str = POOL) -> ValkeyConfig:
    return ValkeyConfig(pool=pool, addresses=(server.address,), kind=kind, primary=primary)


@asynccontextmanager
async def reading(config: ValkeyConfig, credentials: Path | None = None) -> AsyncIterator[UpdateLog]:
    """A log that has begun to read."""
    updates = UpdateLog(config, credentials)
    try:
        await updates.exchange(b"begins")
        yield updates
    finally:
        await updates.close()


def accepted(server: ValkeyServer, *command: str) -> bool:
    try:
        return bool(server.ask(*command))
    except RedisError:
        return False


def leads_to(sentinel: ValkeyServer) -> int:
    with Redis(port=sentinel.port) as client:
        return int(client.sentinel_master("ours")["port"])


async def test_each_update_is_read_once_and_in_order(valkey: ValkeyServer) -> None:
    async with reading(of(valkey)) as first, reading(of(valkey)) as second:
        assert await first.exchange(b"1") == [b"begins", b"1"]
        assert await first.exchange(b"2") == [b"2"]
        assert await second.exchange(b"3") == [b"1", b"2", b"3"]
        assert await second.exchange(b"4") == [b"4"]
        third = UpdateLog(of(valkey), None)
        assert await third.exchange(b"5") == [b"begins", b"begins", b"1", b"2", b"3", b"4", b"5"]
        await third.close()


async def test_what_is_older_than_it_is_kept_is_gone(valkey: ValkeyServer) -> None:
    valkey.ask("XADD", KEY, "1-0", "u", "of 1970")
    async with reading(of(valkey)) as updates:
        assert valkey.ask("XLEN", KEY) == 2
        await updates.exchange(b"goes on")
        assert valkey.ask("XLEN", KEY) == 2


async def test_pools_read_nothing_of_each_other(valkey: ValkeyServer) -> None:
    async with reading(of(valkey)) as ours, reading(of(valkey, pool="ns/other")) as theirs:
        await theirs.exchange(b"theirs")
        assert await ours.exchange(b"ours") == [b"ours"]


async def test_a_server_that_comes_back_empty_is_read_from_its_beginning(valkey: ValkeyServer) -> None:
    """As if its clock had been set back, too: entries have smaller numbers than before."""
    async with reading(of(valkey)) as first, reading(of(valkey)) as second:
        valkey.ask("XADD", KEY, "99999999999999-0", "u", "from the future")
        await first.exchange(b"1")
        await second.exchange(b"2")
        valkey.stop()
        with pytest.raises(ValkeyError, match="Connect"):
            await first.exchange(b"3")
        valkey.start()
        heard = [*await first.exchange(b"3"), *await first.exchange(b"4")]
        assert heard == [b"3", b"4"]
        with pytest.raises(ValkeyError):
            await second.exchange(b"5")
        heard = [*await second.exchange(b"5"), *await second.exchange(b"6")]
        assert heard == [b"3", b"4", b"5", b"6"]


async def test_a_server_that_is_full_says_so_and_is_used_again_when_it_has_room(valkey: ValkeyServer) -> None:
    async with reading(of(valkey)) as updates:
        valkey.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(ValkeyError, match="maxmemory"):
            await updates.exchange(b"1")
        valkey.ask("CONFIG", "SET", "maxmemory", "0")
        assert await updates.exchange(b"1") == [b"1"]


async def test_a_server_that_does_not_answer_is_given_up_in_time(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_WITHIN", 0.2)
    async with reading(of(valkey)) as updates:
        with valkey.frozen(), pytest.raises(ValkeyError, match="Timeout"):
            await updates.exchange(b"1")
        assert b"2" in await updates.exchange(b"2")


async def test_a_password_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "password").write_text("wrong\n")
    with running_valkey(tmp_path, "--requirepass", "right") as valkey:
        updates = UpdateLog(of(valkey), credentials)
        with pytest.raises(ValkeyError, match="invalid username-password"):
            await updates.exchange(b"1")
        (credentials / "password").write_text("right\n")
        await updates.exchange(b"1")
        assert await updates.exchange(b"2") == [b"2"]
        await updates.close()


async def test_a_user_may_be_confined_to_its_pool(valkey: ValkeyServer, tmp_path: Path) -> None:
    """What `docs/operating` asks for: with such a user, one pool's pods cannot write for another's."""
    (tmp_path / "username").write_text("of-pool")
    (tmp_path / "password").write_text("secret")
    keys = "~justitia:{ns/pool}:*"
    valkey.ask("ACL", "SETUSER", "of-pool", "on", ">secret", keys, "-@all", "+xadd", "+xrange")
    async with reading(of(valkey), credentials=tmp_path) as ours:
        assert await ours.exchange(b"1") == [b"1"]
    theirs = UpdateLog(of(valkey, pool="ns/other"), tmp_path)
    with pytest.raises(ValkeyError, match="NoPermissionError"):
        await theirs.exchange(b"forged")


async def test_sentinels_lead_to_the_new_primary(tmp_path: Path) -> None:
    with running_valkey(tmp_path) as primary, running_valkey(tmp_path) as replica:
        replica.ask("REPLICAOF", "127.0.0.1", primary.port)
        eventually("the replica follows", lambda: replica.follows)
        with running_sentinel(tmp_path, "ours", primary) as sentinel:
            eventually("the sentinel knows the replica", lambda: sentinel.ask("SENTINEL", "REPLICAS", "ours"))
            async with reading(of(sentinel, ServerKind.SENTINEL, "ours")) as updates:
                assert await updates.exchange(b"1") == [b"1"]
                eventually(
                    "the sentinel accepts a failover", lambda: accepted(sentinel, "SENTINEL", "FAILOVER", "ours")
                )
                eventually("the sentinel says where the new one is", lambda: leads_to(sentinel) == replica.port)
                primary.stop()
                with pytest.raises(ValkeyError):
                    await updates.exchange(b"2")
                assert b"2" in await updates.exchange(b"2")
                assert replica.ask("XLEN", KEY) == 3


async def test_a_cluster_is_asked_where_the_pool_is(tmp_path: Path) -> None:
    with running_valkey(tmp_path, "--cluster-enabled", "yes") as node:
        node.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        eventually("the cluster is up", lambda: b"cluster_state:ok" in node.ask("CLUSTER", "INFO"))
        async with reading(of(node, ServerKind.CLUSTER)) as updates:
            assert await updates.exchange(b"1") == [b"1"]
            assert await updates.exchange(b"2") == [b"2"]


@asynccontextmanager
async def tls_door(server: ValkeyServer, authority: Authority, host: str) -> AsyncIterator[int]:
    """A port on which the server is reached over TLS: this build of it has none of its own."""
    pair = authority.issue_server(host, ["127.0.0.1"] if host == "localhost" else [], [host])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
        writer.close()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
        await asyncio.gather(carry(reader, inner_writer), carry(inner_reader, writer))

    door = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context)
    async with door:
        yield door.sockets[0].getsockname()[1]


async def test_over_tls_the_server_must_have_a_certificate_for_its_name(valkey: ValkeyServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with tls_door(valkey, authority, "localhost") as port:
        config = ValkeyConfig(pool=POOL, addresses=(f"localhost:{port}",), tls=True)
        async with reading(config, credentials=tmp_path) as updates:
            assert await updates.exchange(b"1") == [b"1"]
        stranger = UpdateLog(config, None)
        with pytest.raises(ValkeyError, match="certificate verify failed"):
            await stranger.exchange(b"2")
    async with tls_door(valkey, authority, "another.example") as port:
        elsewhere = UpdateLog(ValkeyConfig(pool=POOL, addresses=(f"localhost:{port}",), tls=True), tmp_path)
        with pytest.raises(ValkeyError, match="Hostname mismatch"):
            await elsewhere.exchange(b"3")


@pytest.mark.parametrize("answer", [b"+OK\r\n", b"$-1\r\n", b"*0\r\n", b":7\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_a_server_that_answers_nonsense_is_not_reached(answer: bytes) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(2**16):
            writer.write(answer * 2)
        writer.close()

    server = await asyncio.start_server(answers, "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        updates = UpdateLog(ValkeyConfig(pool=POOL, addresses=(address,)), None)
        with pytest.raises((ValkeyError, TypeError, AttributeError)):
            await updates.exchange(b"1")
        await updates.close()
