"""The command that a training Job runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from justitia_predictor.store import Store
from support.written_runs import written_runs


def train(folder: Path, application: str = "a") -> tuple[int, dict[str, Any], Path]:
    report = folder / "report"
    command = ["--store", f"file://{folder}/store", "--application", application, "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "justitia_predictor", *command], capture_output=True, text=True, check=False
    )
    assert json.loads(report.read_text()) == json.loads(done.stdout)
    return done.returncode, json.loads(done.stdout), report


def test_a_model_is_trained_and_put_into_the_store(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/store")
    store.put_samples("a", 1, "pod", written_runs(60, noise=0.3, seed=1))
    (tmp_path / "store/a/samples/2").write_bytes(b"damaged")
    code, report, _ = train(tmp_path)
    assert code == 0
    artifact = store.artifact("a", report["version"])
    assert (report["kind"], report["samples"], report["unreadableBatches"]) == (artifact.about.kind, 60, 1)
    assert report["errors"]["relative"] < report["errorsOfRunningMean"]["relative"]


def test_too_few_runs_and_no_store_are_told_apart(tmp_path: Path) -> None:
    code, report, _ = train(tmp_path)
    assert (code, report) == (3, {"error": "a has 0 finished runs: 10 are the least"})
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    (tmp_path / "store").write_text("no folder")
    code, report, _ = train(tmp_path)
    assert code == 1
    assert "store" in report["error"]
