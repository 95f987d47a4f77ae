"""How much memory this process may have, and how much of it tenants may make it hold.

About a third is for the process itself, its models, and what the server keeps for connections.
"""

import os
from pathlib import Path

PART_HELD = 3 / 8
"""The part for bodies, answers and lessons (`held.py`)."""
PART_RUNS = 1 / 8
RUN_BYTES = 2048
"""What an open run with the longest name takes, its policy's books included (1.8 KiB, measured)."""

_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Files of cgroup v2 and v1 in which a container sees its own limit."""


def memory_limit(cgroup: Path = _CGROUP, machine: int | None = None) -> int:
    """The container's limit in bytes, or the machine's memory if that is less or there is no limit."""
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if machine is None else machine
    for name in _LIMITS:
        try:
            limit = (cgroup / name).read_text().strip()
        except OSError:
            continue
        return min(has, int(limit)) if limit.isdigit() else has
    return has


def most_held(limit: int) -> int:
    """Bytes that tenants may make this process hold, by its `limit` in bytes."""
    return int(limit * PART_HELD)


def most_runs(limit: int) -> int:
    """Runs that may be open at a time, by the process's `limit` in bytes."""
    return max(1, int(limit * PART_RUNS) // RUN_BYTES)
