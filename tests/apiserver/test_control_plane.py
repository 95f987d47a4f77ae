"""The control plane that the other tests stand on behaves like a cluster's, except that no pod ever runs."""

import json
import os
import signal
from pathlib import Path

import pytest

from cluster.control_plane import ControlPlane, ControlPlaneError

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    },
}


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_deployment_becomes_pods_and_its_deletion_takes_them_along(
    control_plane: ControlPlane, namespace: str
) -> None:
    inside = f"--namespace={namespace}"
    control_plane.kubectl("apply", inside, "-f", "-", input=json.dumps(DEPLOYMENT))
    control_plane.kubectl("wait", inside, "deployment/web", "--for=jsonpath={.status.replicas}=2", "--timeout=60s")

    replica_set = control_plane.get("replicasets", inside)["items"][0]
    pods = control_plane.get("pods", inside)["items"]
    assert replica_set["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == {replica_set["metadata"]["uid"]}
    assert [pod["status"]["phase"] for pod in pods] == ["Pending", "Pending"]

    control_plane.kubectl("delete", inside, "deployment/web", "--cascade=background")
    control_plane.kubectl("wait", inside, "pods", "-l", "app=web", "--for=delete", "--timeout=60s")
    assert control_plane.get("replicasets", inside)["items"] == []


def test_a_service_account_has_only_the_rights_that_were_given(control_plane: ControlPlane, namespace: str) -> None:
    account = f"--as=system:serviceaccount:{namespace}:default"
    inside = f"--namespace={namespace}"
    control_plane.kubectl("create", inside, "role", "reader", "--verb=get", "--resource=configmaps")
    control_plane.kubectl(
        "create", inside, "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:default"
    )
    assert control_plane.kubectl("auth", "can-i", "get", "configmaps", inside, account).strip() == "yes"
    rights = control_plane.kubectl("auth", "can-i", "--list", inside, account)
    assert "secrets" not in rights


def test_nothing_is_left_of_a_control_plane_that_was_ended(control_plane: ControlPlane) -> None:
    with ControlPlane() as second:
        processes = [process.pid for process in second.processes.values()]
        folder = second.folder
        assert len(processes) == 3
        assert second.server != control_plane.server
    assert not any(running(pid) for pid in processes)
    assert not folder.exists()


def test_a_program_that_dies_while_starting_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "helm"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho this machine is too small\nexit 3\n")
        program.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with (
        pytest.raises(ControlPlaneError, match="etcd ended while starting:\nthis machine is too small"),
        ControlPlane(),
    ):
        pass


def test_an_ended_process_does_not_keep_the_others_from_ending() -> None:
    with ControlPlane() as plane:
        processes = list(plane.processes.values())
        processes[1].send_signal(signal.SIGKILL)
        processes[1].wait()
    assert all(process.returncode is not None for process in processes)
