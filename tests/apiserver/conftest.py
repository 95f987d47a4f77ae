"""A real API server for the session, with the project's resource definitions, and a namespace for each test."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.control_plane import ControlPlane
from justitia_cli.local.ports import free_ports
from support.kubectl import Kubectl, OperatorProcess
from support.stage import SYSTEM, Stage

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.define_resources()
        yield plane


@pytest.fixture(scope="session")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """An administrator's."""
    return control_plane.kubeconfig


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of this test's own; its deletion is begun, not awaited."""
    name = f"test-{next(_numbers)}"
    control_plane.create_namespace(name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="module")
def kubectl(control_plane: ControlPlane) -> Kubectl:
    return control_plane.administrator


@pytest.fixture(scope="module")
def start(kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., OperatorProcess]]:
    """Starts operators. All go with the module, and none leaves a Lease for which the next one would have to wait."""
    if not kubectl.exists("namespace", SYSTEM):
        kubectl("create", "namespace", SYSTEM)
    started: list[OperatorProcess] = []

    def begin(**environment: str) -> OperatorProcess:
        log = tmp_path_factory.mktemp("operator") / "log"
        started.append(OperatorProcess(kubectl.kubeconfig, SYSTEM, log, **environment))
        return started[-1]

    yield begin
    for process in started:
        process.stop()


@pytest.fixture(scope="module")
def operator(start: Callable[[], OperatorProcess]) -> OperatorProcess:
    process = start()
    process.wait_until_working()
    return process


@pytest.fixture
def free_port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def stage(kubectl: Kubectl, namespace: str, operator: OperatorProcess) -> Iterator[Stage]:
    stage = Stage(kubectl, namespace)
    stage.set()
    stage.settle()
    yield stage
    kubectl("delete", "tenant", stage.tenant, "--ignore-not-found", "--wait=false")
