"""A user for each pool, who reads and writes that pool's keys and nothing else: so no pool writes for another."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from redis.asyncio import RedisCluster

from justitia_api.config import ValkeyServer
from justitia_valkey.connection import Client, Connection, Login
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
        return ["reset", "on", f">{self.password}", f"~{keys_of(self.pool)}*", *_MAY]


class PoolUsers:
    """Keeps those of the server's users as wanted whose names begin with `prefix`. `login` is a user's who may manage
    others.
    """

    def __init__(self, server: ValkeyServer, login: Login, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[str, PoolUser] = {}
        """The users that were set over this connection. A server that starts again has lost them."""
        self._connection = Connection(server, lambda: login, self._known.clear)

    async def keep(self, wanted: Iterable[PoolUser]) -> None:
        """Make the users that are missing or differ, and remove those of pools that are gone. Raises ValkeyError."""
        users = {user.name: user for user in wanted}
        async with self._connection.use() as client:
            present = {name for name in await _ask(client, "ACL USERS") if name.startswith(self._prefix)}
            for name, user in users.items():
                if name not in present or self._known.get(name) != user:
                    await _ask(client, "ACL SETUSER", name, *user.rules)
                    self._known[name] = user
            for name in present - users.keys():
                await _ask(client, "ACL DELUSER", name)
                self._known.pop(name, None)

    async def close(self) -> None:
        await self._connection.close()


async def _ask(client: Client, *command: str) -> list[str]:
    """Ask all nodes, each of which has users of its own. Returns the names in the first one's answer."""
    if isinstance(client, RedisCluster):
        answers = await client.execute_command(*command, target_nodes=RedisCluster.ALL_NODES)
        answer = next(iter(answers.values())) if isinstance(answers, dict) else answers
    else:
        answer = await client.execute_command(*command)  # type: ignore[no-untyped-call]
    names = answer if isinstance(answer, list) else []
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]
