"""A connection to the server that takes writes: the only one, the primary that sentinels know, or a cluster."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from justitia_api.config import ServerKind, ValkeyConfig
from justitia_vocabulary.units import Seconds

ANSWER_WITHIN: Seconds = 2.0
USERNAME_FILE, PASSWORD_FILE, AUTHORITY_FILE = "username", "password", "ca.crt"

FAILURES = (RedisError, OSError, ValueError)
"""What a client raises where the server is not reached, or refuses."""


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
    """`client` connects with its first command, and is not used after a failure: `close` it, and make another one."""

    def __init__(self, server: ValkeyConfig, login: Login) -> None:
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
        self._sentinels: list[Redis] = []
        self.client: Redis | RedisCluster
        match server.kind:
            case ServerKind.SENTINEL:
                sentinel = Sentinel(addresses, sentinel_kwargs=dict(options), **options)  # type: ignore[no-untyped-call]
                self._sentinels = sentinel.sentinels
                self.client = sentinel.master_for(server.primary)
            case ServerKind.CLUSTER:
                nodes = [ClusterNode(host, port) for host, port in addresses]
                self.client = RedisCluster(startup_nodes=nodes, **options)
            case _:
                host, port = addresses[0]
                self.client = Redis(host=host, port=port, **options)

    async def close(self) -> None:
        for each in (self.client, *self._sentinels):
            await each.aclose()


def failure(error: BaseException) -> ValkeyError:
    return ValkeyError(f"{type(error).__name__}: {error}")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _content(file: Path) -> str | None:
    return file.read_text().strip() if file.exists() else None
