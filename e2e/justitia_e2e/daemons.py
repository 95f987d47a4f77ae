"""Runs processes that outlive the command that starts them. Each has a record with its number and the time of its
start, so that a later process with the same number is not taken for it.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from justitia_e2e import cgroups
from justitia_e2e.machine import ClusterError, State

READY_SECONDS = 90.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.1

# Joins the group before it becomes the daemon: what the daemon starts is in the group too.
_JOIN_AND_BECOME = 'echo $$ >"$1"; cd "$2"; shift 2; exec "$@"'


class Daemons:
    """The cluster's processes by name, in the order in which they were started."""

    def __init__(self, state: State) -> None:
        self._records = state.root / "daemons"
        self._logs = state.root / "logs"

    def start(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] = {}) -> None:
        for folder in (self._records, self._logs):
            folder.mkdir(exist_ok=True)
        number = len(list(self._records.iterdir()))
        self._start(self._records / f"{number:02}-{name}.json", [str(part) for part in command], dict(environment))

    def start_again(self, name: str) -> None:
        """Start a process that was ended, with the same command."""
        (path,) = (path for path in self._paths() if _name(path) == name)
        record = json.loads(path.read_text())
        self._start(path, record["command"], record["environment"])

    def _start(self, path: Path, command: list[str], environment: dict[str, str]) -> None:
        with (self._logs / f"{_name(path)}.log").open("ab") as log:
            process = os.posix_spawnp(
                "sh",
                ["sh", "-c", _JOIN_AND_BECOME, "sh", str(cgroups.ensure()), str(self._logs), *command],
                {**os.environ, **environment},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
                ],
                setsid=True,
            )
        record = {"pid": process, "started": started_at(process), "command": command, "environment": environment}
        path.write_text(json.dumps(record))

    def await_ready(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until a process is ready. Raises ClusterError, with the end of its log, if it ends or takes too long."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if ready():
                return
            if name not in self.running():
                raise ClusterError(f"{name} ended while starting:\n{self.said(name)}")
            time.sleep(POLL_SECONDS)
        raise ClusterError(f"{name} was not ready after {READY_SECONDS:.0f} s:\n{self.said(name)}")

    def said(self, name: str) -> str:
        return (self._logs / f"{name}.log").read_text(errors="replace")[-3000:]

    def known(self) -> list[str]:
        """The names of all processes that were started."""
        return [_name(path) for path in self._paths()]

    def running(self) -> dict[str, int]:
        """The numbers of the processes that run, by name."""
        found = {}
        for path in self._paths():
            record = json.loads(path.read_text())
            if started_at(record["pid"]) == record["started"] is not None:
                found[_name(path)] = record["pid"]
        return found

    def stop(self, name: str) -> None:
        """Ask a process to end, and kill it if it does not. Does nothing if it does not run."""
        process = self.running().get(name)
        if process is None:
            return
        os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while name in self.running():
            if time.monotonic() > deadline:
                os.kill(process, signal.SIGKILL)
            time.sleep(POLL_SECONDS)

    def _paths(self) -> list[Path]:
        return sorted(self._records.glob("*.json"))


def _name(record: Path) -> str:
    return record.stem.partition("-")[2]


def started_at(process: int) -> str | None:
    """When a process was started, in ticks since the machine's start. None if it is over."""
    try:
        # The second field is the name, in parentheses, and may contain anything.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields[19]
