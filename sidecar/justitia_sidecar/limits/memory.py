"""How much memory this process may have, and what of it tenants may make it hold.

A third is the process itself, its models and what the server keeps of connections.
"""

import os
from pathlib import Path

PART_HELD = 3 / 8
"""For bodies, answers and lessons (`held.py`)."""
PART_RUNS = 1 / 8
RUN_BYTES = 2048
"""Of an open run with the longest name, its policy's books included (1.8 KiB, measured)."""

_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Of cgroup v2, and v1. A container sees its own limit there."""


def memory_limit(cgroup: Path = _CGROUP, machine: int | None = None) -> int:
    """Bytes: the container's limit, or the machine's memory where it is less, or where there is no limit."""
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if machine is None else machine
    for name in _LIMITS:
        try:
            limit = (cgroup / name).read_text().strip()
        except OSError:
            continue
        return min(has, int(limit)) if limit.isdigit() else has
    return has


def most_held(limit: int) -> int:
    """Bytes that tenants may make this process hold, of so many that it may have."""
    return int(limit * PART_HELD)


def most_runs(limit: int) -> int:
    """Runs that may be open in so many bytes."""
    return max(1, int(limit * PART_RUNS) // RUN_BYTES)
