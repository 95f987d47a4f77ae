"""What `make e2e KUBECONFIG=… CONTEXT=…` takes and refuses before it changes anything."""

import json
from pathlib import Path

import pytest

from cluster.control_plane import ControlPlane
from justitia_e2e.example import EXAMPLE
from justitia_e2e.given import check_given, kubectl_of_given, names
from justitia_e2e.machine import ClusterError
from support.kubectl import Kubectl

CONTEXT = "tests"


@pytest.fixture
def two_contexts(control_plane: ControlPlane, tmp_path: Path) -> Path:
    """One of them leads nowhere."""
    config = json.loads(control_plane.kubeconfig.read_text())
    config["clusters"].append({"name": "production", "cluster": {"server": "https://127.0.0.1:9"}})
    config["contexts"].append({"name": "production", "context": {"cluster": "production", "user": "admin"}})
    config["current-context"] = "production"
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    return path


def given(plane: ControlPlane, kubeconfig: Path, context: str | None, folder: Path) -> Kubectl:
    return kubectl_of_given(plane.programs / "kubectl", str(kubeconfig), context, folder)


def test_only_the_context_that_was_named_is_taken_along(
    control_plane: ControlPlane, two_contexts: Path, tmp_path: Path
) -> None:
    kubectl = given(control_plane, two_contexts, CONTEXT, tmp_path)
    assert kubectl("config", "get-contexts", "-o", "name").split() == [CONTEXT]
    assert "production" not in Path(kubectl.kubeconfig).read_text()
    assert Path(kubectl.kubeconfig).stat().st_mode & 0o777 == 0o600
    assert kubectl("get", "--raw", "/readyz") == "ok"


@pytest.mark.parametrize(("context", "complaint"), [(None, "CONTEXT="), ("prod", "it has no context prod")])
def test_a_context_that_was_not_named_is_not_guessed(
    control_plane: ControlPlane, two_contexts: Path, tmp_path: Path, context: str | None, complaint: str
) -> None:
    with pytest.raises(ClusterError, match=complaint) as refused:
        given(control_plane, two_contexts, context, tmp_path)
    assert "production, tests" in str(refused.value)


def test_a_kubeconfig_or_cluster_that_is_not_there_is_named(
    control_plane: ControlPlane, two_contexts: Path, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError, match="there is no kubeconfig"):
        given(control_plane, tmp_path / "none", CONTEXT, tmp_path)
    with pytest.raises(ClusterError, match="does not answer"):
        check_given(given(control_plane, two_contexts, "production", tmp_path), EXAMPLE)


def test_without_an_operator_it_is_told_how_to_install_one(
    control_plane: ControlPlane, two_contexts: Path, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError, match="helm install justitia charts/justitia"):
        check_given(given(control_plane, two_contexts, CONTEXT, tmp_path), EXAMPLE)


def test_an_example_is_known_by_what_the_tests_ask_of_it() -> None:
    assert ("ServingPool", "shared") in names(EXAMPLE)
    assert not any(kind == "PersistentVolumeClaim" for kind, _ in names(EXAMPLE))
