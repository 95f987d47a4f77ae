"""HTTP servers that share a process: uvicorn, without its own signals and logs of requests."""

import contextlib
import ssl
from collections.abc import Iterator

import uvicorn

KEEP_ALIVE_SECONDS = 120
"""Longer than clients and load balancers keep an idle connection: whoever closes first must be the one that sends."""


class Server(uvicorn.Server):
    """Leaves signals to the process, which runs several of them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_config(app: object, tls: ssl.SSLContext | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=5,
        ssl_context_factory=None if tls is None else lambda config, default: tls,
    )
