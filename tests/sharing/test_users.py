"""The users that the operator keeps in an installation's Valkey: each pool's own, and nobody else's."""

from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.exceptions import AuthenticationError

from chart.helm import rendered
from justitia_api.config import ServerKind, ValkeyConfig
from justitia_benchmarks.valkey_server import ValkeyServer, running_valkey
from justitia_operator.build.shared_valkey import pool_users, users_prefix
from justitia_operator.runtime.valkey import first_login
from justitia_operator.world.objects import Kind, Ref
from justitia_valkey.connection import Login, ValkeyError
from justitia_valkey.log import UpdateLog
from justitia_valkey.users import PoolUser, PoolUsers
from support.resources import ROOT, pool
from support.serving import eventually

ADMINISTRATOR = Login("admin", "of-all")
PREFIX = users_prefix(ROOT)
ONE, TWO = pool_users([pool("one"), pool("two")], ROOT)


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    with running_valkey(tmp_path) as server:
        let_in_the_administrator(server)
        yield server


def let_in_the_administrator(server: ValkeyServer) -> None:
    server.ask("ACL", "SETUSER", "admin", "on", ">of-all", "-@all", "+acl", "+cluster", "+command")


def of(server: ValkeyServer, user: PoolUser, kind: ServerKind = ServerKind.SERVER) -> ValkeyConfig:
    return ValkeyConfig(pool=user.pool, addresses=(server.address,), kind=kind)


@asynccontextmanager
async def keeping(server: ValkeyServer, kind: ServerKind = ServerKind.SERVER) -> AsyncIterator[PoolUsers]:
    users = PoolUsers(ValkeyConfig(pool="", addresses=(server.address,), kind=kind), ADMINISTRATOR, PREFIX)
    try:
        yield users
    finally:
        await users.close()


async def may(config: ValkeyConfig, user: PoolUser, folder: Path) -> bool:
    """Whether the user may write an update there."""
    (folder / "username").write_text(user.name)
    (folder / "password").write_text(user.password)
    log = UpdateLog(config, folder)
    try:
        await log.exchange(b"update")
    except ValkeyError:
        return False
    await log.close()
    return True


async def test_each_user_writes_for_its_own_pool_alone(valkey: ValkeyServer, tmp_path: Path) -> None:
    async with keeping(valkey) as users:
        assert not await may(of(valkey, ONE), ONE, tmp_path)
        await users.keep([ONE, TWO])
        assert await may(of(valkey, ONE), ONE, tmp_path)
        assert not await may(of(valkey, ONE), TWO, tmp_path)
        assert not await may(of(valkey, ONE), PoolUser(ONE.name, ONE.pool, "guessed"), tmp_path)


async def test_who_is_gone_may_nothing_any_more_and_others_users_stay(valkey: ValkeyServer, tmp_path: Path) -> None:
    valkey.ask("ACL", "SETUSER", "somebody-else", "on", ">secret")
    valkey.ask("ACL", "SETUSER", "justitia-000000000000-uid", "on", ">secret")
    async with keeping(valkey) as users:
        await users.keep([ONE, TWO])
        await users.keep([TWO])
        assert not await may(of(valkey, ONE), ONE, tmp_path)
        assert await may(of(valkey, TWO), TWO, tmp_path)
    assert {b"somebody-else", b"justitia-000000000000-uid"} <= set(valkey.ask("ACL", "USERS"))


async def test_a_server_that_starts_again_gets_its_users_again(valkey: ValkeyServer, tmp_path: Path) -> None:
    async with keeping(valkey) as users:
        await users.keep([ONE])
        valkey.stop()
        with pytest.raises(ValkeyError):
            await users.keep([ONE])
        valkey.start()
        let_in_the_administrator(valkey)
        await users.keep([ONE])
        assert await may(of(valkey, ONE), ONE, tmp_path)


async def test_a_user_that_somebody_removed_is_made_again(valkey: ValkeyServer, tmp_path: Path) -> None:
    async with keeping(valkey) as users:
        await users.keep([ONE])
        valkey.ask("ACL", "DELUSER", ONE.name)
        await users.keep([ONE])
        assert await may(of(valkey, ONE), ONE, tmp_path)


async def test_the_administrator_must_know_its_password(valkey: ValkeyServer) -> None:
    users = PoolUsers(of(valkey, ONE), Login("admin", "wrong"), PREFIX)
    with pytest.raises(ValkeyError, match="invalid username-password"):
        await users.keep([ONE])


async def test_every_node_of_a_cluster_has_the_users(tmp_path: Path) -> None:
    with running_valkey(tmp_path, "--cluster-enabled", "yes") as node:
        node.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        eventually("the cluster is up", lambda: b"cluster_state:ok" in node.ask("CLUSTER", "INFO"))
        let_in_the_administrator(node)
        async with keeping(node, ServerKind.CLUSTER) as users:
            await users.keep([ONE])
        assert await may(of(node, ONE, ServerKind.CLUSTER), ONE, tmp_path)


def test_installations_that_use_one_server_do_not_touch_each_others_users() -> None:
    assert users_prefix(ROOT) != users_prefix("11" * 32)
    assert ONE.name.startswith(PREFIX)
    assert ONE.password != TWO.password
    assert ONE.password not in repr(ONE)


async def test_the_charts_own_begins_with_the_administrator_that_the_operator_made(tmp_path: Path) -> None:
    """With the arguments of the chart; nobody else may enter it."""
    made = first_login(Ref(Kind.SECRET, "justitia-system", "valkey.justitia.dev"))["data"]
    user, password, users = (b64decode(made[name]).decode() for name in ("username", "password", "users.acl"))
    (tmp_path / "users.acl").write_text(users)
    documents = rendered("--set=valkey.enabled=true", "--show-only=templates/valkey.yaml")
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = container["command"][1:]
    for own in ("--port", "--dir"):
        del arguments[arguments.index(own) : arguments.index(own) + 2]
    arguments[arguments.index("--aclfile") + 1] = str(tmp_path / "users.acl")
    with running_valkey(tmp_path, *arguments) as valkey:
        with pytest.raises(AuthenticationError):
            valkey.ask("PING")
        users_of_pools = PoolUsers(ValkeyConfig(pool="", addresses=(valkey.address,)), Login(user, password), PREFIX)
        await users_of_pools.keep([ONE])
        await users_of_pools.close()
        assert await may(of(valkey, ONE), ONE, tmp_path)
