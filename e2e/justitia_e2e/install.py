"""Installs the operator by its chart, and offers volumes as an administrator would: some with a model, some empty."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from justitia_cli.tiny_model import make_tiny_model
from justitia_e2e.images import REDIS_IMAGE, ROOT, Image
from justitia_e2e.machine import State, run
from support.kubectl import Kubectl

NAMESPACE = "justitia-system"
RELEASE = "justitia"
VALKEY = "justitia-valkey"
MODEL = "tiny"
VOLUMES = 4
"""Volumes of each kind, one for each claim: a volume is never given to a second claim."""


def install_operator(state: State, programs: Path, image: Image) -> None:
    """Install or upgrade the chart of this checkout with this image, and wait until it is available."""
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
                "--force-conflicts",
                f"--set-string=image.tag={image.tag}",
                f"--set=valkey.enabled=true,valkey.command=redis-server,valkey.image={REDIS_IMAGE}",
                "--wait",
                "--timeout=3m",
            ],
            environment=settings | {"KUBECONFIG": str(state.kubeconfig)},
        )


def name_valkey_by_its_address(kubectl: Kubectl) -> None:
    """The node has no DNS, by which the chart names it."""
    address = kubectl.get("service", VALKEY, NAMESPACE)["spec"]["clusterIP"]
    variable = f"JUSTITIA_VALKEY_ADDRESSES={address}:6379"
    kubectl("-n", NAMESPACE, "set", "env", f"deployment/{RELEASE}", variable)
    kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{RELEASE}", "--timeout=3m")


def offer_volumes(state: State, kubectl: Kubectl) -> None:
    """Make volumes with the tiny model and empty ones, in place of those whose claims are gone."""
    make_tiny_model(state.models / MODEL)
    for volume in json.loads(kubectl("get", "persistentvolumes", "-o", "json"))["items"]:
        if volume["status"]["phase"] == "Released":
            kubectl("delete", "persistentvolume", volume["metadata"]["name"])
            if "local" in volume["spec"]:
                shutil.rmtree(volume["spec"]["local"]["path"])
    numbers = range(1, VOLUMES + 1)
    kubectl.apply(*(_model_volume(state, n) for n in numbers), *(_empty_volume(state, n) for n in numbers))


def _model_volume(state: State, number: int) -> dict[str, Any]:
    source = {"hostPath": {"path": str(state.models), "type": "Directory"}}
    return _volume(f"models-{number}", "models", "ReadOnlyMany", source)


def _empty_volume(state: State, number: int) -> dict[str, Any]:
    """An empty volume on this node. The kubelet lets pods write to volumes of this type."""
    folder = state.volumes / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    expression = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    place = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return _volume(f"local-{number}", "local", "ReadWriteOnce", {"local": {"path": str(folder)}, "nodeAffinity": place})


def _volume(name: str, storage_class: str, mode: str, source: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": [mode],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            **source,
        },
    }
