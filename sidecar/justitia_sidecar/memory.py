"""How much memory this process may have."""

import os
from pathlib import Path

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
