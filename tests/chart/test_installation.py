"""The chart on a real API server: what it installs, what its service account may do."""

import asyncio
import json
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from chart.account import OWN, WRITTEN, may, write_kubeconfig
from chart.helm import Release, definitions
from cluster.control_plane import ControlPlane
from justitia_operator.runtime.kube import Rejected, connect
from justitia_operator.world.objects import Json, ref_of
from support.kubectl import ROOT, OperatorProcess, eventually

OF_OTHERS = (
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "scaledobjects.keda.sh",
    "inferencepools.inference.networking.k8s.io",
    "httproutes.gateway.networking.k8s.io",
)
"""Written where they are installed; not watched."""
LEASE = "leases.coordination.k8s.io"


@pytest.fixture
def release(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """The namespace of an installed release that takes its definitions along when it goes."""
    release = Release(control_plane, namespace)
    release.install("--set", "crds.keep=false")
    yield namespace
    release("uninstall")
    eventually(lambda: not definitions(control_plane))


def test_the_operators_pod_meets_the_restricted_standard(control_plane: ControlPlane, release: str) -> None:
    inside = f"--namespace={release}"
    control_plane.kubectl("wait", inside, "deployment/justitia", "--for=jsonpath={.status.replicas}=1", "--timeout=60s")
    (pod,) = control_plane.get("pods", inside)["items"]
    assert pod["spec"]["containers"][0]["command"] == ["python", "-m", "justitia_operator"]


def test_the_service_account_may_write_what_a_pool_consists_of(control_plane: ControlPlane, release: str) -> None:
    allowed: list[tuple[str, ...]] = [
        *(("watch", resource, "--all-namespaces") for resource in (*OWN, *WRITTEN, "namespaces", "pods")),
        *(
            ("patch", resource, "--namespace=default")
            for resource in (*WRITTEN, "secrets", "servingpools.justitia.dev")
        ),
        *(("delete", resource, "--namespace=default") for resource in (*WRITTEN, "servingpools.justitia.dev")),
        *(("patch", resource, "--subresource=status", "--namespace=default") for resource in OWN),
        ("create", "events.events.k8s.io", "--namespace=default"),
        *((verb, "secrets", f"--namespace={release}") for verb in ("get", "list", "watch", "create")),
        *((verb, f"{LEASE}/justitia-operator", f"--namespace={release}") for verb in ("get", "update")),
    ]
    assert [check for check in allowed if not may(control_plane, release, *check)] == []


def test_the_service_account_may_do_nothing_else(control_plane: ControlPlane, release: str) -> None:
    refused: list[tuple[str, ...]] = [
        *((verb, "secrets", "--namespace=default") for verb in ("get", "list", "watch", "delete")),
        *((verb, "tenants.justitia.dev") for verb in ("create", "patch", "delete")),
        *((verb, "llmapplications.justitia.dev", "--namespace=default") for verb in ("create", "patch", "delete")),
        ("update", f"{LEASE}/another", f"--namespace={release}"),
        ("get", f"{LEASE}/justitia-operator", "--namespace=default"),
        ("create", "pods", "--namespace=default"),
        ("create", "pods", "--subresource=exec", f"--namespace={release}"),
        ("create", "rolebindings.rbac.authorization.k8s.io", f"--namespace={release}"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("impersonate", "users"),
    ]
    assert [check for check in refused if may(control_plane, release, *check)] == []


def test_the_service_account_may_write_other_projects_kinds_which_nobody_has_installed(
    control_plane: ControlPlane, release: str
) -> None:
    """Asked in so many words: `kubectl auth can-i` looks the resource up."""

    def may_here(verb: str, name: str, group: str) -> bool:
        attributes = {"verb": verb, "group": group, "resource": name, "namespace": "default"}
        spec = {"user": f"system:serviceaccount:{release}:justitia", "resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = control_plane.kubectl("create", "-f", "-", "-o", "json", input=json.dumps(review))
        return bool(json.loads(answer)["status"]["allowed"])

    verbs = ("get", "list", "watch", "create", "patch", "update", "delete", "deletecollection")
    for resource in OF_OTHERS:
        name, _, group = resource.partition(".")
        assert {verb for verb in verbs if may_here(verb, name, group)} == {"get", "list", "create", "patch", "delete"}
        assert not may_here("patch", f"{name}/status", group)
    assert not may_here("list", "gateways", "gateway.networking.k8s.io")


def test_the_operator_serves_the_example_with_no_more_than_its_own_rights(
    control_plane: ControlPlane, release: str, tmp_path: Path
) -> None:
    """The process runs outside, since no pod runs here, but with the service account's token."""
    kubeconfig = write_kubeconfig(control_plane, release, tmp_path)
    example = (
        (ROOT / "examples" / "llmapp.yaml").read_text().replace("namespace: justitia-system", f"namespace: {release}")
    )
    kubectl = control_plane.administrator

    log = tmp_path / "log"
    operator = OperatorProcess(str(kubeconfig), release, log)
    try:
        operator.wait_until_working()
        kubectl("apply", "-f", "-", stdin=example)
        eventually(lambda: kubectl.exists("deployment", "justitia-shared", "demo"))
        eventually(lambda: kubectl.condition("servingpool", "shared", "demo", "Accepted")[0] == "True")
        eventually(lambda: kubectl.get("servingpool", "shared", "demo")["status"]["applications"] == 5)
        eventually(lambda: kubectl.condition("llmapp", "chat", "demo", "Accepted")[0] == "True")
        operator.wait_for_resyncs(2)
        kubectl("delete", "-f", "-", stdin=example)
    finally:
        operator.stop()
    # A refusal for lack of a right names who lacks it.
    assert "system:serviceaccount:" not in log.read_text()


def secret(namespace: str, name: str, *owners: Json) -> Json:
    metadata = {"name": name, "namespace": namespace, "ownerReferences": list(owners)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": "somebody's"}}


async def is_refused(attempt: Coroutine[Any, Any, object]) -> bool:
    try:
        await attempt
    except Rejected as error:
        return "is no ServingPool's" in str(error)
    return False


def test_the_service_account_reads_and_changes_no_secret_but_pools(
    control_plane: ControlPlane, release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = {"apiVersion": "justitia.dev/v1alpha1", "kind": "ServingPool", "name": "mine", "uid": "u"}
    owner |= {"controller": True}
    there = [secret("default", "theirs"), secret("default", "justitia-mine")]
    for each in there:
        control_plane.kubectl("create", "-f", "-", input=json.dumps(each))
    new = [
        secret("default", "new"),
        secret("default", "justitia-new"),
        secret("default", "justitia-another", owner),
        secret("default", "justitia-mine", owner),
        secret("default", "justitia-mine", owner | {"kind": "Deployment", "apiVersion": "apps/v1"}),
    ]
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(control_plane, release, tmp_path)))

    async def allowed() -> list[str]:
        async with connect() as kube:
            attempts: dict[str, Coroutine[Any, Any, object]] = {}
            attempts |= {f"to read {each['metadata']['name']}": kube.look(ref_of(each)) for each in there}
            attempts |= {f"to apply {number}": kube.apply(each, None) for number, each in enumerate(new)}
            found = [name for name, attempt in attempts.items() if not await is_refused(attempt)]
            await kube.apply(secret("default", "justitia-shared", owner | {"name": "shared"}), None)
            return found

    async def in_effect() -> bool:
        async with connect() as kube:
            return await is_refused(kube.look(ref_of(there[0])))

    # A policy is a moment after it is made.
    eventually(lambda: asyncio.run(in_effect()))
    assert asyncio.run(allowed()) == []
