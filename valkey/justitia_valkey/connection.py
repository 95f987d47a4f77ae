"""A connection to the server that takes writes: the only one, the primary that sentinels know, or a cluster."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from justitia_api.config import ServerKind, ValkeyServer
from justitia_vocabulary.units import Seconds

ANSWER_WITHIN: Seconds = 2.0
USERNAME_FILE, PASSWORD_FILE, AUTHORITY_FILE = "username", "password", "ca.crt"

Client = Redis | RedisCluster


class ValkeyError(Exception):
    """The server was not reached, or refuses what it was asked. The text says why."""


@dataclass(frozen=True)
class Login:
    """A user and its password; None: the server asks for none. `authority` (PEM) signed the server's certificate; None:
    a public one did.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    authority: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, folder: Path | None) -> "Login":
        """What the files of a folder say. Raises OSError."""
        if folder is None:
            return cls()
        return cls(*(_content(folder / name) for name in (USERNAME_FILE, PASSWORD_FILE, AUTHORITY_FILE)))


class Connection:
    """A connection that is made with its first use, and again after each failure, with the `login` of that moment.
    `on_closed` is called when it is lost.
    """

    def __init__(self, server: ValkeyServer, login: Callable[[], Login], on_closed: Callable[[], None]) -> None:
        self._server = server
        self._login = login
        self._on_closed = on_closed
        self._client: Client | None = None
        self._sentinels: list[Redis] = []

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Client]:
        """A client for some commands. Raises ValkeyError if one fails."""
        try:
            if self._client is None:
                self._client = self._make()
            yield self._client
        except (RedisError, OSError, ValueError) as error:
            await self.close()
            raise ValkeyError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        client, self._client = self._client, None
        sentinels, self._sentinels = self._sentinels, []
        self._on_closed()
        for each in (client, *sentinels):
            if each is not None:
                await each.aclose()

    def _make(self) -> Client:
        server, login = self._server, self._login()
        options: dict[str, Any] = {
            "username": login.user,
            "password": login.password,
            "socket_timeout": ANSWER_WITHIN,
            "socket_connect_timeout": ANSWER_WITHIN,
            "retry": Retry(NoBackoff(), 0),
            "driver_info": None,  # Redis 7.0 does not know the command that says it
        }
        if server.tls:
            options |= {"ssl": True, "ssl_ca_data": login.authority}
        addresses = [_address(each) for each in server.addresses]
        match server.kind:
            case ServerKind.SENTINEL:
                sentinel = Sentinel(addresses, sentinel_kwargs=dict(options), **options)  # type: ignore[no-untyped-call]
                self._sentinels = sentinel.sentinels
                primary: Redis = sentinel.master_for(server.primary)
                return primary
            case ServerKind.CLUSTER:
                nodes = [ClusterNode(host, port) for host, port in addresses]
                return RedisCluster(startup_nodes=nodes, **options)
            case _:
                host, port = addresses[0]
                return Redis(host=host, port=port, **options)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _content(file: Path) -> str | None:
    return file.read_text().strip() if file.exists() else None
