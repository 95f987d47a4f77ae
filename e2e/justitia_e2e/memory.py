"""Makes a container run out of memory: a process in its control group takes all that it may have."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOM = 256 << 20
"""Bytes that the container may still take: to fill its whole limit would take long."""
TAKE = """
import sys
from pathlib import Path
Path(sys.argv[1]).write_text("0")
taken = []
while True:
    taken.append(b"x" * (1 << 20))
"""
"""The kernel kills another process of the group, because the kubelet marks a container's processes to be killed first.
"""


@contextmanager
def exhausted(process: int) -> Iterator[None]:
    """Keep the memory of the process's container full."""
    group, limit, usage = _group_of(process)
    limit.write_text(str(int(usage.read_text()) + ROOM))
    with subprocess.Popen([sys.executable, "-c", TAKE, group / "cgroup.procs"]) as taker:
        try:
            yield
        finally:
            taker.kill()
    assert taker.returncode == -signal.SIGKILL, "it could not take memory: see what it said above"


def _group_of(process: int) -> tuple[Path, Path, Path]:
    """The folder of its group, and the files with its limit and its usage, in either version of control groups."""
    root = Path("/sys/fs/cgroup")
    lines = Path(f"/proc/{process}/cgroup").read_text().splitlines()
    for controllers, path in (line.split(":", 2)[1:] for line in lines):
        if controllers == "memory":
            group = root / "memory" / path.lstrip("/")
            return group, group / "memory.limit_in_bytes", group / "memory.usage_in_bytes"
    group = root / os.path.relpath(next(line.split("::", 1)[1] for line in lines if line.startswith("0::")), "/")
    return group, group / "memory.max", group / "memory.current"
