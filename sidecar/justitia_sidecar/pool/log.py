"""The log of a pool's updates: a stream in Valkey, or another server of the Redis 7 protocol.

One exchange is one round trip: the own update is added, and all is read that has been added since the last one; all
that the stream has, the first time. After a failure the next exchange connects anew, with address and password as they
are then: so another primary is found, and a password that was replaced is read again. A server that has lost its stream
numbers from its own beginning; then the stream is read from there.
"""

from collections.abc import Sequence
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
KEPT: Seconds = 15.0
"""How long an update stays in the stream: longer than from one whole update to the next."""
MOST_AT_ONCE = 1000
"""Updates that are read in one exchange."""
USERNAME_FILE, PASSWORD_FILE, CA_FILE = "username", "password", "ca.crt"

_UPDATE = b"u"
_FROM_THE_BEGINNING = (0, 0)

EntryId = tuple[int, int]


class LogError(Exception):
    """The log was not reached, or does not work. The text says why."""


class UpdateLog:
    """`credentials` is a folder with a user's name, its password and the authority that signed the server's
    certificate, each where it is needed.
    """

    def __init__(self, server: ValkeyConfig, pool: str, credentials: Path | None) -> None:
        self._server = server
        self._key = f"justitia:{{{pool}}}:updates"
        self._credentials = credentials
        self._client: Redis | RedisCluster | None = None
        self._sentinels: list[Redis] = []
        self._last = _FROM_THE_BEGINNING
        """The last entry that was read."""
        self._added: EntryId | None = None
        """The entry that was added last over this connection: the server's time."""

    async def exchange(self, update: bytes) -> Sequence[bytes]:
        """Add the update, and return those that were added since the last exchange, this one included. Raises LogError
        if the update may not have been added.
        """
        try:
            return await self._exchange(update)
        except (RedisError, OSError, ValueError) as error:
            await self.close()
            raise LogError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        client, self._client, self._added = self._client, None, None
        sentinels, self._sentinels = self._sentinels, []
        for each in (client, *sentinels):
            if each is not None:
                await each.aclose()

    async def _exchange(self, update: bytes) -> Sequence[bytes]:
        if self._client is None:
            self._client = self._connect()
        pipeline = self._client.pipeline(transaction=False)
        oldest = None if self._added is None else _written(self._added[0] - int(KEPT * 1000), 0)
        pipeline.xadd(self._key, {_UPDATE: update}, minid=oldest, approximate=False)
        pipeline.xrange(self._key, min=f"({_written(*self._last)}", count=MOST_AT_ONCE)
        added, entries = await pipeline.execute()
        own = self._added = _entry(added)
        if own <= self._last:
            self._last = _FROM_THE_BEGINNING
        elif entries:
            self._last = _entry(entries[-1][0])
        return [fields[_UPDATE] for _, fields in entries if _UPDATE in fields]

    def _connect(self) -> Redis | RedisCluster:
        """A client, which connects with its first command."""
        server, folder = self._server, self._credentials
        options: dict[str, Any] = {
            "username": _read(folder, USERNAME_FILE),
            "password": _read(folder, PASSWORD_FILE),
            "socket_timeout": ANSWER_WITHIN,
            "socket_connect_timeout": ANSWER_WITHIN,
        }
        if server.tls:
            authority = None if folder is None else folder / CA_FILE
            known = authority is not None and authority.exists()
            options |= {"ssl": True, "ssl_ca_certs": str(authority) if known else None}
        addresses = [_address(each) for each in server.addresses]
        once = Retry(NoBackoff(), 0)
        match server.kind:
            case ServerKind.SENTINEL:
                asked = {"retry": once, **options}
                sentinel = Sentinel(addresses, sentinel_kwargs=asked, **asked)  # type: ignore[no-untyped-call]
                self._sentinels = sentinel.sentinels
                primary: Redis = sentinel.master_for(server.primary)
                return primary
            case ServerKind.CLUSTER:
                nodes = [ClusterNode(host, port) for host, port in addresses]
                return RedisCluster(startup_nodes=nodes, retry=once, **options)
            case _:
                host, port = addresses[0]
                return Redis(host=host, port=port, retry=once, **options)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _read(folder: Path | None, name: str) -> str | None:
    file = None if folder is None else folder / name
    return file.read_text().strip() if file is not None and file.exists() else None


def _entry(name: bytes | str) -> EntryId:
    milliseconds, _, number = (name.decode() if isinstance(name, bytes) else name).partition("-")
    return int(milliseconds), int(number)


def _written(milliseconds: int, number: int) -> str:
    return f"{max(0, milliseconds)}-{number}"
