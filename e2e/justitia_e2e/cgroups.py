"""The cluster's control group. It holds all processes of the cluster and no others, so that they can be found and
ended.

Version 1 has a tree for each controller; daemons are found in the tree of `pids`.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from justitia_e2e.machine import ClusterError

NAME = "justitia-e2e"
DAEMONS = "daemons"
ROOT = Path("/sys/fs/cgroup")
KILL_SECONDS = 30.0
POLL_SECONDS = 0.1
SHARE_OF_PODS = "128"
"""The processor shares of pods; any other process has 1024. With equal shares, an engine that kept the processors busy
made others wait for up to 2.8 s: the cluster's daemons, and the clients, without whose requests there are no shares.
"""


def ensure() -> Path:
    """Make the group. Returns the file by which a daemon's process is put into it."""
    for tree in _trees():
        group = tree / NAME
        group.mkdir(exist_ok=True)
        _inherit_processors(group)
        _let_others_go_first(group)
    daemons = _tree_of_daemons() / NAME / DAEMONS
    daemons.mkdir(exist_ok=True)
    return daemons / "cgroup.procs"


def members() -> set[int]:
    """All processes of the cluster, including those of pods."""
    found: set[int] = set()
    for tree in _trees():
        for folder in _folders(tree / NAME):
            found.update(map(int, (folder / "cgroup.procs").read_text().split()))
    return found


def kill() -> None:
    """End what is left in the group, and remove it."""
    deadline = time.monotonic() + KILL_SECONDS
    while left := members():
        if time.monotonic() > deadline:
            raise ClusterError(f"processes {sorted(left)} do not end after SIGKILL: look at them with ps")
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(POLL_SECONDS)
    for tree in _trees():
        for folder in _folders(tree / NAME):
            folder.rmdir()


def _folders(group: Path) -> Iterator[Path]:
    """The folders below a group, the innermost first."""
    for folder, _, _ in os.walk(group, topdown=False):
        yield Path(folder)


def _trees() -> list[Path]:
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return sorted({path.parent.resolve() for path in ROOT.glob("*/cgroup.procs")})


def _tree_of_daemons() -> Path:
    return ROOT / "pids" if (ROOT / "pids") in _trees() else ROOT


def _inherit_processors(group: Path) -> None:
    """Give the group processors and memory nodes: without them, version 1 lets no process in."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        own, above = group / name, group.parent / name
        if own.exists() and above.exists() and not own.read_text().strip():
            own.write_text(above.read_text())


def _let_others_go_first(group: Path) -> None:
    """Lower the processor shares of pods. Under version 1, only pods are in this tree."""
    shares = group / "cpu.shares"
    if shares.exists():
        shares.write_text(SHARE_OF_PODS)
