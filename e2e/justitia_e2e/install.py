"""What runs on the node: the operator, by its chart, and what an administrator has to offer: volumes with a model."""

import json
import tempfile
from pathlib import Path
from typing import Any

from justitia_cli.tiny_model import make_tiny_model
from justitia_e2e.images import ROOT, Image
from justitia_e2e.machine import State, run
from support.kubectl import Kubectl

NAMESPACE = "justitia-system"
RELEASE = "justitia"
MODEL = "tiny"
VOLUMES = 4
"""One for each claim: a volume is not given to a second."""


def install_operator(state: State, programs: Path, image: Image) -> None:
    """Install, or upgrade to, the chart here with this image, and wait until it is available."""
    with tempfile.TemporaryDirectory() as home:
        settings = {f"HELM_{kind}_HOME": home for kind in ("CACHE", "CONFIG", "DATA")}
        run(
            [
                programs / "helm",
                "upgrade",
                "--install",
                RELEASE,
                ROOT / "charts" / "justitia",
                f"--namespace={NAMESPACE}",
                "--create-namespace",
                f"--set-string=image.tag={image.tag}",
                "--wait",
                "--timeout=3m",
            ],
            environment=settings | {"KUBECONFIG": str(state.kubeconfig)},
        )


def offer_models(state: State, kubectl: Kubectl) -> None:
    """Volumes that hold the tiny model, in place of those whose claim has gone."""
    make_tiny_model(state.models / MODEL)
    for volume in json.loads(kubectl("get", "persistentvolumes", "-o", "json"))["items"]:
        if volume["status"]["phase"] == "Released":
            kubectl("delete", "persistentvolume", volume["metadata"]["name"])
    kubectl.apply(*(_volume(state, number) for number in range(1, VOLUMES + 1)))


def _volume(state: State, number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"models-{number}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "models",
            "hostPath": {"path": str(state.models), "type": "Directory"},
        },
    }
