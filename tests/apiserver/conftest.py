"""A real API server for the session, with the project's resource definitions, and a namespace for each test."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.control_plane import ControlPlane

CRDS = Path(__file__).parents[2] / "crds"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        if CRDS.is_dir():
            plane.kubectl("apply", "--server-side", "-f", str(CRDS))
            plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
        yield plane


@pytest.fixture(scope="session")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """An administrator's."""
    return control_plane.kubeconfig


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of this test's own; its deletion is begun, not awaited."""
    name = f"test-{next(_numbers)}"
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")
