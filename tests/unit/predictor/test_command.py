"""The commands that a training Job and a command line run."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from justitia_predictor.artifact import ArtifactError
from justitia_predictor.features import NUMBERS
from justitia_predictor.sample import Sample
from justitia_predictor.shipped import shipped_artifact
from justitia_predictor.store import Store
from support.written_runs import written_runs

LIMITED = """
import resource, signal, sys
import justitia_predictor.training
from justitia_predictor.__main__ import main
signal.signal(signal.SIGXFSZ, signal.{})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(main())
"""
"""Bound files to 1,000 bytes. A process that writes more is killed, or gets an error as from a full disk."""


def run(folder: Path, command: str, *, application: str = "a", code: str | None = None, report: bool = False) -> Any:
    how = ["-m", "justitia_predictor"] if code is None else ["-c", code]
    arguments = [command, "--store", f"file://{folder}/store", "--application", application]
    arguments += ["--report", str(folder / "report")] if report else []
    return subprocess.run(
        [sys.executable, *how, *arguments],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def outcome(folder: Path, command: str, application: str = "a") -> tuple[int, dict[str, Any]]:
    done = run(folder, command, application=application, report=True)
    told = json.loads(done.stdout)
    assert json.loads((folder / "report").read_text()) == told
    return done.returncode, told


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """With samples of an application, and a batch that cannot be read."""
    store = Store(f"file://{tmp_path}/store")
    store.put_samples("a", 1, "pod", written_runs(60, noise=0.3, seed=1))
    (tmp_path / "store/a/samples/2").write_bytes(b"damaged")
    return store


def test_a_model_is_trained_and_put_into_the_store(store: Store, tmp_path: Path) -> None:
    code, told = outcome(tmp_path, "train")
    assert code == 0
    artifact = store.artifact("a", told["version"])
    assert (told["kind"], told["samples"], told["unreadableBatches"]) == (artifact.about.kind, 60, 1)
    assert told["errors"]["relative"] < told["errorsOfRunningMean"]["relative"]


def test_too_few_runs_and_no_store_are_told_apart(tmp_path: Path) -> None:
    assert outcome(tmp_path, "train") == (3, {"error": "a has 0 finished runs: training needs 10"})
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    (tmp_path / "store").write_text("no folder")
    for command in ("train", "erase"):
        code, told = outcome(tmp_path, command)
        assert code == 1
        assert "store" in told["error"]
    exported = run(tmp_path, "export")
    assert (exported.returncode, exported.stdout) == (1, "")
    assert "store" in exported.stderr


@pytest.mark.parametrize(
    ("disposition", "code"), [("SIG_DFL", -signal.SIGXFSZ), ("SIG_IGN", 1)], ids=["killed", "disk full"]
)
def test_who_cannot_write_to_the_end_leaves_no_half_artifact(
    store: Store, tmp_path: Path, disposition: str, code: int
) -> None:
    before = store.samples("a", 100)
    done = run(tmp_path, "train", code=LIMITED.format(disposition))
    assert done.returncode == code, done.stderr
    left = [path.name for path in (tmp_path / "store/a/artifacts").iterdir()]
    if code == 1:
        assert "too large" in json.loads(done.stdout)["error"]
        assert left == []
    else:
        # It was killed while it wrote, beside what the file was to be called.
        (name,) = left
        assert len(name.removesuffix("#1")) == 64
    assert store.samples("a", 100) == before
    _, told = outcome(tmp_path, "train")
    assert store.artifact("a", told["version"]).about.samples == 60
    assert outcome(tmp_path, "erase") == (0, {"objects": 3})
    assert list((tmp_path / "store").iterdir()) == []


def test_a_versions_file_is_exported_as_it_is_and_an_image_may_bring_it(store: Store, tmp_path: Path) -> None:
    _, told = outcome(tmp_path, "train")
    version = told["version"]
    folder = tmp_path / "image"
    folder.mkdir()
    command = [sys.executable, "-m", "justitia_predictor", "export", "--store", store.url, "--application", "a"]
    with (folder / version).open("wb") as file:
        assert subprocess.run([*command, "--version", version], stdout=file, check=False).returncode == 0
    brought = shipped_artifact(folder, version)
    assert brought is not None
    assert brought.to_bytes() == store.artifact("a", version).to_bytes()
    assert shipped_artifact(folder, "0" * 64) is None
    missing = subprocess.run([*command, "--version", "0" * 64], capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "is not in the store" in missing.stderr


def test_a_file_of_an_image_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    (tmp_path / ("0" * 64)).write_bytes(b"another")
    (tmp_path / ("1" * 64)).mkdir()
    with pytest.raises(ArtifactError, match="damaged"):
        shipped_artifact(tmp_path, "0" * 64)
    with pytest.raises(ArtifactError, match="cannot be read"):
        shipped_artifact(tmp_path, "1" * 64)


def test_samples_are_exported_oldest_first(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/store")
    one, other = written_runs(2, noise=0.3, seed=1)
    store.put_samples("a", 2, "pod", [replace(other, finished=2.5, stages=(1.0, 2.0))])
    store.put_samples("a", 1, "pod", [replace(one, text="Grüße".encode()[:-2])])
    store.put_samples("b", 1, "pod", [one])
    (tmp_path / "store/a/samples/2").write_bytes(b"damaged")
    done = run(tmp_path, "export")
    assert done.returncode == 0
    assert done.stderr == "1 batches could not be read and are left out\n"
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == exported(one) | {"text": "Grü\ufffd"}
    assert second == exported(other) | {"finished": 2.5, "stages": [1.0, 2.0]}


def exported(sample: Sample) -> dict[str, Any]:
    return {
        "finished": 0.0,
        "cost": sample.cost,
        "stages": [],
        "numbers": dict(zip(NUMBERS, sample.features.numbers, strict=True)),
        "terms": {str(bucket): count for bucket, count in sample.features.terms.items()},
        "text": None,
    }


def test_an_application_is_erased_and_no_other(store: Store, tmp_path: Path) -> None:
    store.put_samples("a-b", 1, "pod", written_runs(2, noise=0.3, seed=1))
    assert outcome(tmp_path, "erase") == (0, {"objects": 2})
    assert outcome(tmp_path, "erase") == (0, {"objects": 0})
    assert len(store.samples("a-b", 100)[0]) == 2
    code, told = outcome(tmp_path, "erase", application="")
    assert (code, told) == (1, {"error": "'' is no name of an application in a store"})
