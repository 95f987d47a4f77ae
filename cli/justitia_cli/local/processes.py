"""Processes of local mode. Each has a process group and a log file of its own, and ends with all its children."""

import contextlib
import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from justitia_cli.local.errors import LocalError

GRACE_SECONDS = 20


class ManagedProcess:
    """A child process, and all that it starts."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def fail_if_ended(self) -> None:
        """Raises LocalError, with the end of the log, if the process has ended."""
        code = self._process.poll()
        if code is not None:
            raise LocalError(f"the {self.name} ended with code {code}; the end of {self.log}:\n{tail(self.log)}")

    def stop(self) -> None:
        """End the whole group: ask it to end, and kill it after a grace period."""
        end_group(self._process.pid)
        self._process.wait()


def end_group(pid: int) -> None:
    """End each process of the group that `pid` leads, and wait until all are gone."""
    members = [process for process in psutil.process_iter() if _in_group(process.pid, pid)]
    for signal_number, wait in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal_number)
        _, members = psutil.wait_procs(members, timeout=wait)
        if not members:
            return


def _in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


def tail(log: Path, lines: int = 15) -> str:
    with log.open(encoding="utf-8", errors="replace") as text:
        return "".join(deque(text, maxlen=lines)).rstrip()
