"""What runs the engine: signals before and after it listens, and how it ends."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from justitia_operator.build.pods import SUPERVISE

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
"""As vLLM is while it starts."""
POLITE = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print('up', flush=True)
signal.pause()
"""


@contextmanager
def supervised(program: str, port: int) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", SUPERVISE, str(port), "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Bound, and nobody listens, as vLLM's is while it starts."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_an_engine_that_does_not_listen_yet_is_ended_at_once_though_it_hears_no_signal(closed_port: int) -> None:
    with supervised(DEAF, closed_port) as process:
        assert first_line(process) == "up"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGKILL


def test_an_engine_that_listens_ends_as_it_sees_fit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, supervised(POLITE, listening.getsockname()[1]) as process:
        assert first_line(process) == "up"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 7


@pytest.mark.parametrize("code", [0, 3])
def test_it_ends_with_the_engines_code(code: int, closed_port: int) -> None:
    with supervised(f"import sys; sys.exit({code})", closed_port) as process:
        assert process.wait(30) == code
