"""The chart and the operator where watchNamespaces names some: served there, with rights there, and nowhere else."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chart.account import OWN, WRITTEN, may, write_kubeconfig
from chart.helm import Release, definitions
from cluster.control_plane import ControlPlane
from support.kubectl import Kubectl, OperatorProcess, eventually
from support.stage import Stage


@pytest.fixture
def served(control_plane: ControlPlane, namespace: str) -> list[str]:
    """The names of two namespaces that are to be served."""
    names = [f"{namespace}-{letter}" for letter in "ab"]
    for name in names:
        control_plane.create_namespace(name)
    return names


@pytest.fixture
def release(control_plane: ControlPlane, namespace: str, served: list[str]) -> Iterator[Release]:
    release = Release(control_plane, namespace)
    release.install("--set=crds.keep=false", f"--set=watchNamespaces={{{','.join(served)}}}")
    yield release
    release("uninstall")
    eventually(lambda: not definitions(control_plane))


@pytest.fixture
def kubectl(control_plane: ControlPlane) -> Kubectl:
    return control_plane.administrator


@pytest.fixture
def start(release: Release, tmp_path: Path) -> Iterator[Callable[[], OperatorProcess]]:
    """Starts an operator as the chart's Deployment does, with its account's rights."""
    kubeconfig = write_kubeconfig(release.plane, release.namespace, tmp_path)
    deployment = release.plane.get("deployment", "justitia", f"--namespace={release.namespace}")
    entries = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    given = {entry["name"]: entry["value"] for entry in entries if entry["name"] == "JUSTITIA_WATCH_NAMESPACES"}
    started: list[OperatorProcess] = []

    def begin() -> OperatorProcess:
        log = tmp_path / f"log-{len(started)}"
        started.append(OperatorProcess(str(kubeconfig), release.namespace, log, **given))
        return started[-1]

    yield begin
    for process in started:
        process.stop()


def test_the_service_account_may_serve_these_namespaces_and_no_other(release: Release, served: list[str]) -> None:
    tenants, *pools = OWN
    checks = [
        *(("watch", resource) for resource in (*pools, *WRITTEN, "pods")),
        *(("patch", resource) for resource in (*WRITTEN, "secrets", "servingpools.justitia.dev")),
        *(("patch", resource, "--subresource=status") for resource in pools),
    ]

    def allowed(*where: str) -> list[tuple[str, ...]]:
        return [check for check in checks if may(release.plane, release.namespace, *check, *where)]

    assert allowed(f"--namespace={served[0]}") == checks
    assert allowed("--namespace=default") == allowed("--all-namespaces") == []
    assert not may(release.plane, release.namespace, "get", "secrets", f"--namespace={served[0]}")
    for check in (("watch", tenants), ("patch", tenants, "--subresource=status"), ("watch", "namespaces")):
        assert may(release.plane, release.namespace, *check)


def test_pools_of_these_namespaces_are_served_and_others_do_not_exist(
    release: Release,
    served: list[str],
    kubectl: Kubectl,
    start: Callable[[], OperatorProcess],
) -> None:
    here = Stage(kubectl, served[0], release.namespace)
    elsewhere = Stage(kubectl, f"{release.namespace}-else", release.namespace)
    kubectl("create", "namespace", elsewhere.namespace)
    elsewhere.set(pool={"allowedNamespaces": {"names": [here.namespace]}})
    here.set(tenant={"apiKeys": [{"secretRef": {"name": here.tenant}}, {"secretRef": {"name": "missing"}}]})
    abroad = {"poolRef": {"name": "shared", "namespace": elsewhere.namespace}}
    kubectl.apply(here.application("abroad", **abroad), here.application("nowhere", poolRef={"name": "no"}))
    process = start()
    process.wait_until_working()
    here.settle()
    eventually(lambda: kubectl.exists("deployment", "justitia-shared", here.namespace))
    eventually(lambda: here.condition("llmapp", "abroad", "ResolvedRefs") == ("False", "RefNotPermitted"))
    eventually(lambda: "SecretNotFound" in {event["reason"] for event in kubectl.items("events")})
    process.wait_for_resyncs(3)

    assert "status" not in kubectl.get("spool", "shared", elsewhere.namespace)
    assert "status" not in kubectl.get("llmapp", "chat", elsewhere.namespace)
    assert not kubectl.exists("deployment", "justitia-shared", elsewhere.namespace)
    # A refusal for lack of a right names who lacks it.
    assert "system:serviceaccount:" not in process.log()


def test_a_namespace_that_goes_and_comes_back_is_served_again_and_the_others_all_along(
    release: Release, served: list[str], kubectl: Kubectl, start: Callable[[], OperatorProcess]
) -> None:
    going, staying = (Stage(kubectl, name, release.namespace) for name in served)
    for stage in (going, staying):
        stage.set()
    operator = start()
    operator.wait_until_working()
    going.settle()

    kubectl("delete", "namespace", going.namespace)
    eventually(lambda: operator.entries("namespaces have come or gone") == 1)
    eventually(lambda: operator.entries("begun") == 2)
    assert f'"namespace": "{going.namespace}"' in operator.log()
    staying.set(tenant={"weight": "7"})
    eventually(lambda: staying.config().tenants[0].weight == 7.0)

    kubectl("create", "namespace", going.namespace)
    release.upgrade("--reuse-values")
    eventually(lambda: operator.entries("namespaces have come or gone") == 2)
    going.set()
    going.settle()
    assert operator.entries("leading") == 1
    assert operator.stop() == 0
