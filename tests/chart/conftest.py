"""A control plane of the chart's own: the resource definitions are the chart's to install here."""

import itertools
from collections.abc import Iterator

import pytest

from cluster.control_plane import ControlPlane

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """A namespace that admits only pods that meet the restricted Pod Security Standard."""
    name = f"justitia-{next(_numbers)}"
    control_plane.kubectl("create", "namespace", name)
    control_plane.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    return name
