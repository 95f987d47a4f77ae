"""Finds and checks TCP ports of the loopback interface."""

import contextlib
import socket
from random import SystemRandom

from justitia_cli.local.errors import LocalError

PORTS = range(18_000, 30_000)
"""The range in which free ports are looked for: below those that the system gives to connections (32,768 on Linux)."""


def require_free_port(port: int, purpose: str, option: str) -> None:
    """Raises LocalError if nobody can listen on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LocalError(
                f"port {port} for the {purpose} cannot be used ({error.strerror}): free it, or change {option}"
            ) from error


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on, and that the system gives to no connection meanwhile. For a minute, no
    other call of this function finds them, in whatever process. Raises LocalError if there are not so many.
    """
    found: list[int] = []
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError):
            _reserve(port)
            found.append(port)
        if len(found) == count:
            return found
    raise LocalError(f"fewer than {count} ports are free from {PORTS.start} to {PORTS.stop - 1}: see `ss -tlnp`")


def _reserve(port: int) -> None:
    """Leave the port to a server to come: a connection whose server closed it first keeps the port (TIME_WAIT of TCP)
    from all but servers, who ask for the use of such a port (SO_REUSEADDR). Raises OSError if the port is in use.
    """
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.listen()
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()
            client.recv(1)
