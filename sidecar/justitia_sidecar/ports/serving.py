"""HTTP servers that share a process: uvicorn, without its signal handlers and its logs of requests."""

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator

import uvicorn

from justitia_sidecar.ports.client_connection import ClientConnection
from justitia_sidecar.ports.connections import OTHER_PORTS_SEATS, BoundedProtocol, Seats, accept_backlog, bounded
from justitia_vocabulary.units import Seconds

KEEP_ALIVE_SECONDS = 120
"""Longer than clients and load balancers keep an idle connection: the side that sends has to close it first."""


class Server(uvicorn.Server):
    """A server that leaves signals to the process, which runs several. Ends connections whose clients do not read."""

    def __init__(self, config: uvicorn.Config, clock: Callable[[], Seconds] = time.monotonic) -> None:
        super().__init__(config)
        self._clock = clock
        self._looked = clock()

    async def on_tick(self, counter: int) -> bool:
        """Look at connections once a second; uvicorn calls this ten times a second."""
        if counter % 10 == 0:
            self.look()
        return await super().on_tick(counter)

    def look(self) -> None:
        """Look at what clients have taken since the last look."""
        now = self._clock()
        for connection in list(self.server_state.connections):
            if isinstance(connection, ClientConnection):
                connection.looked_at(now - self._looked)
        self._looked = now

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_config(
    app: object, tls: ssl.SSLContext | None = None, seats: Seats[BoundedProtocol] | None = None
) -> uvicorn.Config:
    """`seats` may be those of several ports. None: a few, of this port alone."""
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=bounded(seats or Seats(OTHER_PORTS_SEATS)),
        backlog=accept_backlog(),
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=5,
        ssl_context_factory=None if tls is None else lambda config, default: tls,
    )
