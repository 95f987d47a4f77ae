"""The operator's service account: what the API server says that it may do, and how to be it."""

import json
import subprocess
from pathlib import Path

from cluster.control_plane import ControlPlane

OWN = ("tenants.justitia.dev", "servingpools.justitia.dev", "llmapplications.justitia.dev")
WRITTEN = (
    "serviceaccounts",
    "configmaps",
    "services",
    "deployments.apps",
    "jobs.batch",
    "poddisruptionbudgets.policy",
    "networkpolicies.networking.k8s.io",
    "horizontalpodautoscalers.autoscaling",
)
"""What a pool consists of and the operator reads again."""


def may(control_plane: ControlPlane, namespace: str, verb: str, resource: str, *arguments: str) -> bool:
    """What the API server answers about the operator's service account."""
    account = f"--as=system:serviceaccount:{namespace}:justitia"
    try:
        answer = control_plane.kubectl("auth", "can-i", verb, resource, account, *arguments)
    except subprocess.CalledProcessError as refusal:
        answer = refusal.stdout
    assert answer.strip() in {"yes", "no"}
    return answer.strip() == "yes"


def write_kubeconfig(control_plane: ControlPlane, namespace: str, folder: Path) -> Path:
    """For a process outside, since no pod runs here, with the account's token."""
    token = control_plane.kubectl("create", "token", "justitia", f"--namespace={namespace}").strip()
    configuration = json.loads(control_plane.kubeconfig.read_text())
    configuration["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(configuration))
    return path
