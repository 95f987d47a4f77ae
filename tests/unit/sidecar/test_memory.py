from pathlib import Path

import pytest

from justitia_sidecar.limits.memory import memory_limit

MACHINE = 2**34


@pytest.mark.parametrize(
    ("file", "says", "limit"),
    [
        ("memory.max", "1073741824\n", 2**30),
        ("memory.max", "max\n", MACHINE),
        ("memory/memory.limit_in_bytes", "536870912\n", 2**29),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", MACHINE),
        ("other", "1\n", MACHINE),
    ],
)
def test_the_limit_is_the_container_s_or_the_machine_s(tmp_path: Path, file: str, says: str, limit: int) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(says)
    assert memory_limit(tmp_path, MACHINE) == limit
