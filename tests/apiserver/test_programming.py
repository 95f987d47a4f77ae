"""A pod is told its configuration: a real API server, the operator's process and a sidecar's, over their real ports.

Only the kubelet's part is the test's: it writes the sidecar's files from ConfigMap and Secret, once, and reports the
pod's address.
"""

import base64
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.components import free_ports
from justitia_api.wire import CONTROL_PORT
from support.kubectl import Json, eventually
from support.serving import stop
from support.stage import Stage

ADDRESS = "127.0.0.3"
"""The pod's: no other test listens there."""


class Files:
    """What a kubelet would have mounted when the pod began."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.folder = folder
        (folder / "pool.json").write_text(stage.child("configmap")["data"]["pool.json"])
        for name, encoded in stage.child("secret")["data"].items():
            (folder / name).write_bytes(base64.b64decode(encoded))


@contextmanager
def scheduler(files: Files) -> Iterator[str]:
    """A sidecar with these files. Its admin URL."""
    public, admin = free_ports(2)
    settings = {
        "CONFIG_FILE": files.folder / "pool.json",
        "KEYS_FILE": files.folder / "keys.json",
        "CONTROL_FOLDER": files.folder,
        "CONTROL_HOST": ADDRESS,
        "CONTROL_PORT": CONTROL_PORT,
        "ENGINE_URL": "http://127.0.0.1:1",
        "PORT": public,
        "ADMIN_PORT": admin,
    }
    environment = os.environ | {f"JUSTITIA_{name}": str(value) for name, value in settings.items()}
    with (files.folder / "log").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-m", "justitia_sidecar"], env=environment, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{admin}"
    finally:
        stop(process)


def weight_in(admin: str) -> float:
    with urllib.request.urlopen(f"{admin}/internal/status", timeout=5) as answer:
        (tenant,) = json.loads(answer.read())["tenants"]
    return float(tenant["weight"])


def running(instance: str) -> Json:
    """The pod's status with its scheduler in this container."""
    container = {
        "name": "scheduler",
        "image": "justitia:test",
        "imageID": "",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "containerID": f"containerd://{instance}",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    return {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}], "initContainerStatuses": [container]}


def programmed(stage: Stage) -> tuple[str, str]:
    return stage.condition("spool", "shared", "Programmed")


@pytest.mark.usefixtures("operator")
def test_a_change_is_in_force_in_the_pod_which_is_told_again_when_it_starts_again(stage: Stage, tmp_path: Path) -> None:
    assert eventually(lambda: programmed(stage)) == ("False", "NoPods")
    (pod,) = stage.pods()
    files = Files(stage, tmp_path)
    with scheduler(files) as admin:
        eventually(lambda: weight_in(admin) == 1.0)
        stage.report(pod, **running("one"))
        eventually(lambda: programmed(stage) == ("True", "Programmed"))
        stage.set(tenant={"weight": "5"})
        eventually(lambda: weight_in(admin) == 5.0)
        eventually(lambda: programmed(stage) == ("True", "Programmed"))
    eventually(lambda: programmed(stage) == ("False", "NotReachable"))
    with scheduler(files) as admin:
        eventually(lambda: weight_in(admin) == 5.0)
        stage.report(pod, **running("two"))
        eventually(lambda: programmed(stage) == ("True", "Programmed"))
