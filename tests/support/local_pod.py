"""A pool's pod without its engine: a sidecar's process with the files that a kubelet would have mounted."""

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from justitia_api.wire import CONTROL_PORT
from justitia_cli.local.ports import free_ports
from support.kubectl import Json
from support.serving import stop
from support.stage import Stage


class Files:
    """What a kubelet would have mounted when the pod began."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.folder = folder
        (folder / "pool.json").write_text(stage.child("configmap")["data"]["pool.json"])
        for name, encoded in stage.child("secret")["data"].items():
            (folder / name).write_bytes(base64.b64decode(encoded))


@contextmanager
def local_sidecar(files: Files, address: str, **more: object) -> Iterator[str]:
    """A sidecar with these files and settings, whose control port is at the address. Its admin URL."""
    public, admin = free_ports(2)
    settings = {
        "CONFIG_FILE": files.folder / "pool.json",
        "KEYS_FILE": files.folder / "keys.json",
        "CONTROL_FOLDER": files.folder,
        "CONTROL_HOST": address,
        "CONTROL_PORT": CONTROL_PORT,
        "ENGINE_URL": "http://127.0.0.1:1",
        "PORT": public,
        "ADMIN_PORT": admin,
        **more,
    }
    environment = os.environ | {f"JUSTITIA_{name}": str(value) for name, value in settings.items()}
    with (files.folder / "log").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-m", "justitia_sidecar"], env=environment, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{admin}"
    finally:
        stop(process)


def running(instance: str, address: str) -> Json:
    """The pod's status with its sidecar in this container."""
    container = {
        "name": "sidecar",
        "image": "justitia:test",
        "imageID": "",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "containerID": f"containerd://{instance}",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    return {"podIP": address, "podIPs": [{"ip": address}], "initContainerStatuses": [container]}
