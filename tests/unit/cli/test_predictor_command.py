"""`justitia predictor`, with a kubectl that notes what it is asked and answers from a script."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

VERSIONS = ["a" * 64, "b" * 64]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a cluster's answers, which tests may change, and a log of what was asked."""
    application = {
        "metadata": {"namespace": "team", "uid": "uid-1"},
        "spec": {"poolRef": {"name": "shared", "namespace": "gpu"}},
        "status": {"predictor": {"history": VERSIONS}},
    }
    container = {"name": "sidecar", "state": {"running": {}}, "started": True, "containerID": "one"}
    status = {"podIP": "10.0.0.7", "initContainerStatuses": [container]}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "gpu"}, "status": status}
        for name in ("one", "two")
    ]
    (tmp_path / "application").write_text(json.dumps(application))
    (tmp_path / "pods").write_text(json.dumps({"items": pods}))
    program = tmp_path / "kubectl"
    program.write_text(f"""#!/bin/sh
echo "$@" >> {tmp_path}/asked
case "$*" in
*"get llmapplication"*) cat {tmp_path}/application;;
*"get pods"*) cat {tmp_path}/pods;;
*" erase "*) echo '{{"objects": 7}}';;
*" export "*) echo '{{"cost": 1.0}}';;
esac
""")
    program.chmod(0o755)
    return tmp_path


def predictor(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "justitia_cli", "predictor", *arguments]
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


def asked(folder: Path, word: str) -> list[str]:
    return [line for line in (folder / "asked").read_text().splitlines() if word in line]


@pytest.mark.parametrize(("options", "version"), [((), VERSIONS[0]), (("--to=bb",), VERSIONS[1])])
def test_rollback_puts_an_earlier_version_into_effect(folder: Path, options: tuple[str, ...], version: str) -> None:
    done = predictor(folder, "rollback", "chat", "--namespace=team", *options)
    assert done.returncode == 0, done.stderr
    (patch,) = asked(folder, "patch")
    change: Any = {"spec": {"predictor": {"version": version}}}
    assert patch == f"--namespace=team patch llmapplication chat --type=merge --patch={json.dumps(change)}"
    assert "until spec.predictor.version is removed" in done.stdout


def test_without_an_earlier_version_it_says_how_to_go_back_to_the_mean(folder: Path) -> None:
    application = json.loads((folder / "application").read_text()) | {"status": {}}
    (folder / "application").write_text(json.dumps(application))
    done = predictor(folder, "rollback", "chat")
    assert done.returncode == 1
    assert "it has none" in done.stderr
    assert "remove spec.predictor" in done.stderr
    assert not asked(folder, "patch")


def test_samples_are_exported_through_one_sidecar_of_the_pool(folder: Path) -> None:
    done = predictor(folder, "export", "chat")
    assert (done.returncode, done.stdout) == (0, '{"cost": 1.0}\n')
    (command,) = asked(folder, "exec")
    where = "exec one --namespace=gpu --container=sidecar"
    assert command == f"{where} -- python -m justitia_predictor export --application=uid-1"


def test_what_was_learned_is_erased_in_every_pod_and_then_from_the_store(folder: Path) -> None:
    done = predictor(folder, "erase", "chat")
    assert "7 objects of chat are erased" in done.stdout
    commands = [line.partition(" -- python -m ")[2] for line in asked(folder, "exec")]
    assert commands == [
        "justitia_sidecar.forget uid-1",
        "justitia_sidecar.forget uid-1",
        "justitia_predictor erase --application=uid-1",
    ]


def test_a_pool_without_a_running_sidecar_is_an_error(folder: Path) -> None:
    (folder / "pods").write_text('{"items": []}')
    done = predictor(folder, "export", "chat")
    assert done.returncode == 1
    assert "no pod of ServingPool gpu/shared runs a sidecar" in done.stderr
