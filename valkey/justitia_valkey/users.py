"""A user for each pool, who reads and writes that pool's keys and nothing else: so no pool writes for another."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from redis.asyncio import RedisCluster

from justitia_api.config import ValkeyConfig
from justitia_valkey.connection import FAILURES, Connection, Login, failure
from justitia_valkey.log import keys_of

_MAY = ("-@all", "+xadd", "+xrange", "+cluster|slots", "+cluster|shards", "+command")


@dataclass(frozen=True)
class PoolUser:
    """The user of a pool, by the name that its keys begin with."""

    name: str
    pool: str
    password: str = field(repr=False)

    @property
    def rules(self) -> list[str]:
        return ["reset", "on", f">{self.password}", f"~{keys_of(self.pool)}", *_MAY]


class PoolUsers:
    """Keeps those of the server's users as wanted whose names begin with `prefix`. `login` is a user's who may manage
    others.
    """

    def __init__(self, server: ValkeyConfig, login: Login, prefix: str) -> None:
        self._server = server
        self._login = login
        self._prefix = prefix
        self._connection: Connection | None = None
        self._known: dict[str, PoolUser] = {}
        """The users that were set over this connection. A server that starts again has lost them."""

    async def keep(self, wanted: Iterable[PoolUser]) -> None:
        """Make the users that are missing or differ, and remove those of pools that are gone. Raises ValkeyError."""
        try:
            await self._keep({user.name: user for user in wanted})
        except FAILURES as error:
            await self.close()
            raise failure(error) from error

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        self._known.clear()
        if connection is not None:
            await connection.close()

    async def _keep(self, wanted: dict[str, PoolUser]) -> None:
        if self._connection is None:
            self._connection = Connection(self._server, self._login)
        present = {name for name in await self._ask("ACL USERS") if name.startswith(self._prefix)}
        for name, user in wanted.items():
            if name not in present or self._known.get(name) != user:
                await self._ask("ACL SETUSER", name, *user.rules)
                self._known[name] = user
        for name in present - wanted.keys():
            await self._ask("ACL DELUSER", name)
            self._known.pop(name, None)

    async def _ask(self, *command: str) -> list[str]:
        """Ask all nodes, each of which has users of its own. Returns the names in the first one's answer."""
        assert self._connection is not None
        client = self._connection.client
        if isinstance(client, RedisCluster):
            answers = await client.execute_command(*command, target_nodes=RedisCluster.ALL_NODES)
            answer = next(iter(answers.values())) if isinstance(answers, dict) else answers
        else:
            answer = await client.execute_command(*command)  # type: ignore[no-untyped-call]
        names = answer if isinstance(answer, list) else []
        return [name.decode() if isinstance(name, bytes) else str(name) for name in names]
