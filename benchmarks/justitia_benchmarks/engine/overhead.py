"""What our scheduler adds to a step of vLLM's, measured by `benchmarks/vllm_steps.py` in the engine's interpreter."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from justitia_cli.runtime import EngineRuntime

ROOT = Path(__file__).resolve().parents[3]
WINGS = tuple(ROOT / wing for wing in ("engine", "channel", "scheduling", "vocabulary"))
PACKAGES = {"PYTHONPATH": os.pathsep.join(map(str, WINGS))}
"""What a script that runs in the engine's interpreter needs of ours."""
SCRIPT = ROOT / "benchmarks" / "vllm_steps.py"


def measure_steps(runtime: EngineRuntime, model: Path, steps: int, layouts: int) -> list[dict[str, Any]]:
    """Rows of running, waiting and microseconds by scheduler. Raises RuntimeError with what the script said."""
    packages = PACKAGES | {"JUSTITIA_SOCKET": str(model / "no.sock")}
    done = subprocess.run(
        [str(runtime.python), str(SCRIPT), str(model), str(steps), str(layouts)],
        env=os.environ | dict(runtime.environment) | packages,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{SCRIPT.name} ended with {done.returncode}: {done.stderr[-2000:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows
