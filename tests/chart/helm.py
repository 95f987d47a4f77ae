"""Calls helm on the chart."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from cluster.build import ensure_programs

CHART = Path(__file__).parents[2] / "charts" / "justitia"


def helm(*arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What helm answers. Its own files stay out of the user's home."""
    program = ensure_programs(lambda line: None) / "helm"
    with tempfile.TemporaryDirectory() as home:
        settings = {f"HELM_{kind}_HOME": home for kind in ("CACHE", "CONFIG", "DATA")}
        if kubeconfig:
            settings["KUBECONFIG"] = str(kubeconfig)
        return subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **settings}
        )


def rendered(*arguments: str) -> list[dict[str, Any]]:
    """The objects that the chart becomes with the given options."""
    answer = helm("template", "justitia", str(CHART), "--namespace", "justitia-system", *arguments)
    assert answer.returncode == 0, answer.stderr
    return [document for document in yaml.safe_load_all(answer.stdout) if document]
