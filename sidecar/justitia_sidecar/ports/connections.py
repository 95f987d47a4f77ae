"""Decides who may hold a connection, and how much of a request is held before its head is complete.

A connection is a guest of its address until a request on it is authenticated; then it belongs to that tenant. If all
seats are taken, a guest gives way: of the address that has most guests, the one that sent something longest ago. So an
ingress before many tenants does not count as one address. Tenants share all seats but an eighth, in which newcomers can
show their key.
"""

import asyncio
import resource
from collections import OrderedDict, defaultdict
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from justitia_sidecar.ports.client_connection import ClientConnection
from justitia_vocabulary.units import Seconds, TenantId

MOST_UNPARSED_BYTES = 64 * 2**10
"""The most bytes of a head, trailers or a chunk's extension. OpenAI's clients send about one KiB."""
MOST_HEADER_LINES = 128
MOST_PIPELINED = 16
HEAD_SECONDS: Seconds = 10.0
BODY_SECONDS: Seconds = 30.0
"""The longest time without a byte of the body."""
OTHER_PORTS_SEATS = 64
"""Seats of the admin port, and of the control port."""

C = TypeVar("C", bound=Hashable)


class _Holders(Generic[C]):
    """Connections by holder, in the order in which they were last heard. Each operation takes constant time."""

    def __init__(self) -> None:
        self.count = 0
        self.held: dict[str, OrderedDict[C, None]] = {}
        self._by_size: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._largest = 0

    def add(self, holder: str, connection: C) -> None:
        self.count += 1
        held = self.held.setdefault(holder, OrderedDict())
        held[connection] = None
        self._resized(holder, len(held) - 1, len(held))

    def discard(self, holder: str, connection: C) -> bool:
        """Remove a connection. Returns whether it was there."""
        held = self.held.get(holder)
        if held is None or connection not in held:
            return False
        self.count -= 1
        del held[connection]
        self._resized(holder, len(held) + 1, len(held))
        if not held:
            del self.held[holder]
        return True

    def heard(self, holder: str, connection: C) -> None:
        self.held[holder].move_to_end(connection)

    def fullest(self) -> str:
        """The holder of most connections. Raises StopIteration if there are none."""
        return next(iter(self._by_size[self._largest]))

    def _resized(self, holder: str, before: int, after: int) -> None:
        if before:
            del self._by_size[before][holder]
            if not self._by_size[before]:
                del self._by_size[before]
        if after:
            self._by_size[after][holder] = None
        if after > self._largest or self._largest not in self._by_size:
            self._largest = after


class Seats(Generic[C]):
    """The seats of a port, one for each open connection: `most` is how many there are."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._for_tenants = most - max(1, most // 8)
        self._guests: _Holders[C] = _Holders()
        self._members: _Holders[C] = _Holders()
        self._idle: _Holders[C] = _Holders()
        """Members without a request under way."""
        self._address: dict[C, str] = {}
        self._tenant: dict[C, TenantId] = {}

    def enter(self, connection: C, address: str) -> C | None:
        """Take a seat. Returns the connection that must go, which may be this one."""
        self._address[connection] = address
        self._guests.add(address, connection)
        if self._guests.count + self._members.count <= self.most:
            return None
        return self._ends(next(iter(self._guests.held[self._guests.fullest()])))

    def heard(self, connection: C) -> None:
        if (tenant := self._tenant.get(connection)) is not None:
            self._members.heard(tenant, connection)
        elif (address := self._address.get(connection)) is not None:
            self._guests.heard(address, connection)

    def begun(self, connection: C) -> None:
        """Note that a request is under way."""
        if (tenant := self._tenant.get(connection)) is not None:
            self._idle.discard(tenant, connection)

    def over(self, connection: C) -> None:
        """Note that no request is under way."""
        tenant = self._tenant.get(connection)
        if tenant is not None and connection not in self._idle.held.get(tenant, ()):
            self._idle.add(tenant, connection)

    def authenticate(self, connection: C, tenant: TenantId) -> C | None:
        """Note that a tenant's request is under way. Returns the connection that must go, which may be this one."""
        before = self._tenant.get(connection)
        if before == tenant or connection not in self._address:
            return None
        if before is None:
            self._guests.discard(self._address[connection], connection)
        else:
            self._members.discard(before, connection)
        self._tenant[connection] = tenant
        self._members.add(tenant, connection)
        return None if self._members.count <= self._for_tenants else self._ends(self._one_too_many())

    def leave(self, connection: C) -> None:
        """Free the seat. May be called several times."""
        address = self._address.pop(connection, None)
        tenant = self._tenant.pop(connection, None)
        if tenant is not None:
            self._members.discard(tenant, connection)
            self._idle.discard(tenant, connection)
        elif address is not None:
            self._guests.discard(address, connection)

    def _one_too_many(self) -> C:
        """Choose who must go: the longest idle connection of the tenant that holds most, or of one with most idle ones
        that holds more than its part; else the one with the newest request of the tenant that holds most.
        """
        fullest = self._members.fullest()
        holders = [fullest]
        if self._idle.count:
            holders.append(self._idle.fullest())
        part = self._for_tenants // len(self._members.held)
        for holder in holders:
            if holder in self._idle.held and len(self._members.held[holder]) > part:
                return next(iter(self._idle.held[holder]))
        return next(reversed(self._members.held[fullest]))

    def _ends(self, connection: C) -> C:
        self.leave(connection)
        return connection


def raise_file_limit() -> None:
    """Let this process open as many files as the system allows it to."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def accept_backlog() -> int:
    """The most connections of a port that wait to be accepted: an eighth of the files that this process may open. All
    of them may be accepted in one turn of the loop, before those that give way are closed.
    """
    return max(16, min(2048, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8))


def public_seats() -> "Seats[BoundedProtocol]":
    """Seats of the ports at which requests come in. A request takes two files: its client's connection, and the
    engine's or another sidecar's. A quarter of all files is left for connections that are being closed, the other
    ports, the store and the engine's probes.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Seats(max(16, files * 3 // 8))


class _TooMuchError(Exception):
    """Raised to end the parser's work at once."""


class BoundedProtocol(ClientConnection):
    """uvicorn's protocol, with bounds. `bounded` sets `seats`."""

    seats: "Seats[BoundedProtocol]"

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._unparsed = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(HEAD_SECONDS)
        loser = self.seats.enter(self, self.client[0] if self.client else "")
        if loser is not None:
            loser.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self.seats.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.seats.heard(self)
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > MOST_UNPARSED_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect(HEAD_SECONDS)
        self.seats.begun(self)
        self.scope["state"]["authenticated"] = self._authenticated

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MOST_HEADER_LINES:
            raise _TooMuchError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        if len(self.pipeline) >= MOST_PIPELINED:
            raise _TooMuchError
        self._expect(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        self._expect(BODY_SECONDS)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self.seats.over(self)
        super().on_response_complete()

    def _authenticated(self, tenant: TenantId) -> bool:
        """Give the connection a seat of the tenant. Returns False if there is none: the application closes it then."""
        loser = self.seats.authenticate(self, tenant)
        if loser is not None and loser is not self:
            loser.transport.abort()
        return loser is not self

    def _expect(self, seconds: Seconds) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._late, seconds)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self, seconds: Seconds) -> None:
        if self.flow.read_paused:  # this side does not read
            self._expect(seconds)
        else:
            self.transport.abort()


def bounded(seats: "Seats[BoundedProtocol]") -> type[BoundedProtocol]:
    """The protocol of a port with these seats. Ports may share them."""
    return type("BoundedProtocol", (BoundedProtocol,), {"seats": seats})
