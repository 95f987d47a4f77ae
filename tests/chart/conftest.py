"""A control plane of the chart's own: the resource definitions are the chart's to install here."""

import itertools
from collections.abc import Iterator

import pytest

from cluster.build import ensure_definitions
from cluster.control_plane import ControlPlane

PROMETHEUS = "github.com/prometheus-operator/prometheus-operator"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-snapshots", action="store_true", help="write what the chart becomes, instead of comparing"
    )


@pytest.fixture
def renewing(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--renew-snapshots", default=False))


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """A namespace that admits only pods that meet the restricted Pod Security Standard."""
    name = f"justitia-{next(_numbers)}"
    control_plane.create_namespace(name)
    control_plane.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    return name


@pytest.fixture(scope="session")
def prometheus(control_plane: ControlPlane) -> None:
    """The definitions of the Prometheus operator that the chart has objects of."""
    folder = ensure_definitions(PROMETHEUS, "example/prometheus-operator-crd", lambda line: None)
    control_plane.define(
        *(folder / f"monitoring.coreos.com_{kind}.yaml" for kind in ("podmonitors", "prometheusrules"))
    )
