"""The log of a pool's updates: a stream.

One exchange is one round trip: the own update is added, and all is read that has been added since the last one; all
that the stream has, the first time. After a failure the next exchange connects again, with address and password as they
are then: so another primary is found, and a password that was replaced is read again. A server that has lost its stream
numbers from its own beginning; then the stream is read from there.
"""

from collections.abc import Sequence
from pathlib import Path

from justitia_api.config import ValkeyConfig
from justitia_valkey.connection import Connection, Login
from justitia_vocabulary.units import Seconds

KEPT: Seconds = 15.0
"""How long an update stays in the stream: longer than from one whole update to the next."""
MOST_AT_ONCE = 1000
"""Updates that are read in one exchange."""

_UPDATE = b"u"
_FROM_THE_BEGINNING = (0, 0)

EntryId = tuple[int, int]


def keys_of(pool: str) -> str:
    """What the names of a pool's keys begin with. Those of one pool are in one slot of a cluster."""
    return f"justitia:{{{pool}}}:"


class UpdateLog:
    """`credentials` is a folder with a user's name, its password and the authority that signed the server's
    certificate, each where it is needed.
    """

    def __init__(self, server: ValkeyConfig, credentials: Path | None) -> None:
        self._key = f"{keys_of(server.pool)}updates"
        self._connection = Connection(server, lambda: Login.read(credentials), self._closed)
        self._last = _FROM_THE_BEGINNING
        """The last entry that was read."""
        self._added: EntryId | None = None
        """The entry that was added last over this connection: the server's time."""

    async def exchange(self, update: bytes) -> Sequence[bytes]:
        """Add the update, and return those that were added since the last exchange, this one included. Raises
        ValkeyError if the update may not have been added.
        """
        async with self._connection.use() as client:
            pipeline = client.pipeline(transaction=False)
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

    async def close(self) -> None:
        await self._connection.close()

    def _closed(self) -> None:
        self._added = None


def _entry(name: bytes | str) -> EntryId:
    milliseconds, _, number = (name.decode() if isinstance(name, bytes) else name).partition("-")
    return int(milliseconds), int(number)


def _written(milliseconds: int, number: int) -> str:
    return f"{max(0, milliseconds)}-{number}"
