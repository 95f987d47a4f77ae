"""A predictor is trained and told to the pods: a real API server with its Job controller, the operator's process, a
sidecar's, a store, and the training itself. Only the kubelet's part is the test's, which runs what the Job's pod is to
run.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from justitia_predictor.store import Store
from support.kubectl import ROOT, Json, eventually
from support.local_pod import Files, local_sidecar, running
from support.stage import Stage
from support.written_runs import written_runs

ADDRESS = "127.0.0.4"
"""The pod's: no other test listens there."""
LEARNED_SECONDS = 120.0
"""The operator asks pods from time to time what they learned."""
LEARNING = {
    "pool": {"learning": {"store": {"claimName": "models"}}},
    "application": {"predictor": {"minimumSamples": 20}},
}


def recorded(stage: Stage) -> Json:
    status: Json = stage.kubectl.get("llmapp", "chat", stage.namespace)["status"]
    return dict(status.get("predictor") or {})


def reason(stage: Stage) -> str:
    return stage.condition("llmapp", "chat", "PredictorReady")[1]


def learned(admin: str) -> Json:
    with urllib.request.urlopen(f"{admin}/internal/status", timeout=5) as answer:
        (found,) = json.loads(answer.read())["learning"]
    return dict(found)


def jobs(stage: Stage) -> list[Json]:
    return stage.kubectl.items("jobs", stage.namespace)


def pod_of(stage: Stage, job: Json) -> str:
    label = f"batch.kubernetes.io/job-name={job['metadata']['name']}"
    (pod,) = eventually(lambda: stage.kubectl.names("pods", stage.namespace, label))
    return pod


def run_as_kubelet(stage: Stage, job: Json, store: Path, report: Path) -> int:
    """What the Job's pod is to run, with the volume at another place, and its end in the pod's status."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    places = {"file:///store": f"file://{store}", "/dev/termination-log": str(report)}
    command = [sys.executable, *container["command"][1:]]
    for there, here in places.items():
        command = [part.replace(there, here) for part in command]
    done = subprocess.run(command, check=False, capture_output=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    message = report.read_text() if report.exists() else ""
    ended = {
        "exitCode": done.returncode,
        "reason": "Error" if done.returncode else "Completed",
        "message": message,
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:01:00Z",
    }
    whole = {
        "name": "train",
        "image": "justitia:test",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    phase = "Failed" if done.returncode else "Succeeded"
    stage.report(pod_of(stage, job), phase=phase, containerStatuses=[whole])
    return done.returncode


def store_of(stage: Stage, folder: Path) -> Path:
    """The pool's part of the volume."""
    uid: str = stage.kubectl.get("spool", "shared", stage.namespace)["metadata"]["uid"]
    return folder / uid


@pytest.mark.usefixtures("operator")
def test_samples_in_the_store_become_a_candidate_in_the_pods(stage: Stage, tmp_path: Path) -> None:
    stage.set(**LEARNING)
    uid = stage.kubectl.get("llmapp", "chat", stage.namespace)["metadata"]["uid"]
    volume = tmp_path / "volume"
    url = f"file://{store_of(stage, volume)}"
    Store(url).put_samples(uid, time.time(), "before", written_runs(60, 0.2, seed=1))
    eventually(lambda: stage.config().applications[0].learning is not None)
    # Those of the rollout's two generations are all the same to the operator.
    pod, *_ = stage.pods()
    (files := tmp_path / "files").mkdir()
    settings = {"STORE_URL": url, "SAMPLES_FILE": tmp_path / "samples.sqlite"}
    with local_sidecar(Files(stage, files), ADDRESS, **settings) as admin:
        eventually(lambda: learned(admin)["samples"] == 60)
        stage.report(pod, **running("one", ADDRESS))
        (job,) = eventually(lambda: jobs(stage), LEARNED_SECONDS)
        assert eventually(lambda: reason(stage) == "Training")
        assert run_as_kubelet(stage, job, volume, tmp_path / "report") == 0
        version = json.loads((tmp_path / "report").read_text())["version"]
        eventually(lambda: recorded(stage).get("candidate") == version, LEARNED_SECONDS)
        assert reason(stage) == "Comparing"
        told = eventually(lambda: learned(admin)["candidate"], LEARNED_SECONDS)
        assert told["version"] == version
        eventually(lambda: learned(admin)["candidate"]["loaded"])
    assert len(jobs(stage)) == 1


@pytest.mark.usefixtures("operator")
def test_a_version_is_put_in_effect_by_hand_and_kept(stage: Stage, tmp_path: Path) -> None:
    stage.set(**LEARNING)
    earlier = ["a" * 64, "b" * 64]
    record = {"status": {"predictor": {"version": "c" * 64, "history": earlier}}}
    eventually(lambda: reason(stage) == "Collecting")
    stage.kubectl.patch("llmapp", "chat", stage.namespace, record, "--subresource=status")
    path = f"{Path(stage.kubectl.program).parent}{os.pathsep}{os.environ['PATH']}"

    def rollback(*arguments: str) -> "subprocess.CompletedProcess[str]":
        where = (f"--namespace={stage.namespace}", f"--kubeconfig={stage.kubectl.kubeconfig}")
        command = [sys.executable, "-m", "justitia_cli", "predictor", "rollback", "chat", *arguments, *where]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, env=os.environ | {"PATH": path}, cwd=ROOT
        )

    wrong = rollback("--to=dddd")
    assert wrong.returncode == 1
    assert "it has aaaaaaaaaaaa, bbbbbbbbbbbb" in wrong.stderr
    done = rollback("--to=bbbb")
    assert done.returncode == 0, done.stderr
    eventually(lambda: recorded(stage).get("version") == earlier[1])
    assert recorded(stage)["lastDecision"]["reason"] == "Pinned"
    assert recorded(stage)["history"] == ["c" * 64, "a" * 64]
    learning = eventually(lambda: stage.config().applications[0].learning)
    eventually(lambda: stage.config().applications[0].learning.version == earlier[1])  # type: ignore[union-attr]
    assert learning.keep_text is False
