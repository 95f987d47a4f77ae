"""TCP ports of the loopback interface."""

import contextlib
import socket
from random import SystemRandom

from justitia_cli.local.errors import LocalError

PORTS = range(18_000, 30_000)
"""Where free ones are looked for: below those that the system gives to connections, on Linux from 32,768 on."""


def require_free_port(port: int, purpose: str, option: str) -> None:
    """Raise LocalError if the port cannot be listened on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LocalError(
                f"port {port}, wanted for the {purpose}, cannot be used ({error.strerror}): see {option}"
            ) from error


def free_ports(count: int) -> list[int]:
    """Different ports of the loopback interface that nobody listens on, and that no connection is given before somebody
    does. Raises LocalError where there are not so many.
    """
    found: list[int] = []
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            return found
    raise LocalError(f"no {count} free ports between {PORTS.start} and {PORTS.stop - 1}: look at them with ss -tlnp")
