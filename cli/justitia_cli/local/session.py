"""Lets each user have one local pool at a time: holds a lock while it is up, and keeps a note of its processes.

The note outlives a supervisor that was killed, so that `down` can still end the processes. The moment of its creation
tells a process from a later one with the same number.
"""

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from justitia_cli.local.errors import LocalError
from justitia_cli.local.processes import end_group
from justitia_operator.build.pods import ENGINE_SOCKET
from justitia_simulator.files import write_bytes

STOP_SECONDS = 60.0
PLUGIN_FOLDER = "plugin"
"""The folder of the plug-in, with its socket."""
LONGEST_SOCKET_PATH = 107
"""Bytes of the path of a Unix socket, on Linux."""


def state_directory() -> Path:
    """The folder for documents, logs and the note (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "justitia" / "local"


@dataclass(frozen=True)
class SessionNote:
    """The supervisor, its process groups with their times of creation, and whether requests are served."""

    supervisor: int
    groups: dict[str, float]
    ready: bool


class Session:
    """The lock and the note in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._note = directory / "session.json"
        self._lock = directory / "lock"

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock, and end what a killed supervisor left. Raises LocalError if a pool is up already, or cannot be
        here.
        """
        socket = self.directory / PLUGIN_FOLDER / Path(ENGINE_SOCKET).name
        if (excess := len(os.fsencode(socket)) - LONGEST_SOCKET_PATH) > 0:
            raise LocalError(
                f"the path of a socket, {socket}, is {excess} bytes too long for this system: "
                "set XDG_STATE_HOME to a folder with a shorter path"
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LocalError("a local pool is up already: `justitia local down` ends it") from None
            self._end_leftovers()
            try:
                yield
            finally:
                self._note.unlink(missing_ok=True)

    def write(self, pids: list[int], *, ready: bool) -> None:
        groups = {str(pid): psutil.Process(pid).create_time() for pid in pids}
        write_bytes(self._note, json.dumps(asdict(SessionNote(os.getpid(), groups, ready))).encode())

    def read(self) -> SessionNote | None:
        try:
            return SessionNote(**json.loads(self._note.read_text()))
        except FileNotFoundError:
            return None

    def end(self) -> bool:
        """End the pool that is up, or what a killed supervisor left. Returns False if there is nothing to end."""
        note = self.read()
        if note is None:
            return False
        if not self._supervised():
            self._end_leftovers()
            return True
        os.kill(note.supervisor, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while self._supervised():
            if time.monotonic() > deadline:
                raise LocalError(f"the supervisor (process {note.supervisor}) did not end in {STOP_SECONDS:.0f} s")
            time.sleep(0.1)
        return True

    def _supervised(self) -> bool:
        with self._lock.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _end_leftovers(self) -> None:
        note = self.read()
        for pid, created in note.groups.items() if note else ():
            if psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).create_time() == created:
                end_group(int(pid))
        self._note.unlink(missing_ok=True)
