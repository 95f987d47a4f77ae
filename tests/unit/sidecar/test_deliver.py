"""What the engine loads, in a folder of its own."""

import subprocess
import sys
from pathlib import Path

import msgspec

from justitia_sidecar.deliver import deliver


def test_the_packages_can_be_imported_from_the_folder_alone(tmp_path: Path) -> None:
    deliver(tmp_path)
    (tmp_path / "justitia_engine" / "stale.py").touch()
    deliver(tmp_path)
    assert not (tmp_path / "justitia_engine" / "stale.py").exists()
    beside = tmp_path / "of the engine"
    beside.mkdir()
    (beside / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    script = "import justitia_engine.host as h, justitia_scheduling as s; print(h.__file__, s.__file__)"
    found = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": f"{tmp_path}:{beside}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(path.startswith(str(tmp_path)) for path in found.stdout.split())
