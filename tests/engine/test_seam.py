"""vLLM is as our scheduler takes it to be. The interface is vLLM's own business and may change with any version."""

import os
import subprocess
from pathlib import Path

from justitia_cli.runtime import ensure_engine

CHECKS = Path(__file__).resolve().parents[1] / "support" / "vllm_seam.py"


def test_the_installed_vllm_is_as_expected() -> None:
    runtime = ensure_engine(print, "cpu")
    checked = subprocess.run(
        [str(runtime.python), str(CHECKS)],
        env=os.environ | dict(runtime.environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr[-2000:]
