"""A cluster for the tests: one that is given, the node that is up, or a node for the time of the tests; with a user,
and the example applied.
"""

import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest

from cluster.build import BuildError, ensure_programs
from justitia_e2e.cluster import kubectl_of, look
from justitia_e2e.example import (
    APPLICATION,
    ENGINE_SECONDS,
    EXAMPLE,
    NAMESPACE,
    User,
    client_of,
    give_rights,
    serves,
    service_address,
    take_rights,
)
from justitia_e2e.given import check_given, forwarded, kubectl_of_given
from justitia_e2e.machine import ClusterError, State
from support.kubectl import Kubectl, eventually

PROGRAM = Path(__file__).parent / "cluster"
GONE_SECONDS = 240.0
LAST_LINES = 80


@dataclass(frozen=True)
class Cluster:
    """A cluster. `reach` returns the address of the pool's Service for clients on this machine."""

    administrator: Kubectl
    reach: Callable[[], AbstractContextManager[str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup(
        "cluster", "a cluster of your own, with the operator installed, in place of a node made here"
    )
    group.addoption("--kubeconfig", help="its kubeconfig; tests that kill parts of the node are left out")
    group.addoption("--context", help="the context in it, which must be named")
    group.addoption(
        "--example", type=Path, default=EXAMPLE, help="the file to apply, with the names of examples/cpu.yaml"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "node: breaks parts of the node, which must be this machine")
    if config.getoption("--context") and not config.getoption("--kubeconfig"):
        raise pytest.UsageError("CONTEXT= is for a cluster of your own: give its kubeconfig too, with KUBECONFIG=")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--kubeconfig"):
        of_node = [item for item in items if item.get_closest_marker("node")]
        config.hook.pytest_deselected(items=of_node)
        items[:] = [item for item in items if item not in of_node]


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with the code of this checkout installed."""
    if request.config.getoption("--kubeconfig"):
        try:
            given = _given(request.config, tmp_path_factory.mktemp("given"))
        except (ClusterError, BuildError) as error:
            pytest.exit(f"{error}", returncode=2)
        yield Cluster(given, lambda: forwarded(given))
        return
    state = State()
    ours = not any(part.works for part in look(state))
    subprocess.run([PROGRAM, "up"], check=True)
    administrator = kubectl_of(state)
    yield Cluster(administrator, lambda: nullcontext(service_address(administrator)))
    if ours:
        subprocess.run([PROGRAM, "down"], check=True)


def _given(config: pytest.Config, folder: Path) -> Kubectl:
    programs = ensure_programs(print, ("kubectl",))
    kubeconfig, context = config.getoption("--kubeconfig"), config.getoption("--context")
    kubectl = kubectl_of_given(programs / "kubectl", kubeconfig, context, folder)
    check_given(kubectl, config.getoption("--example"))
    return kubectl


@pytest.fixture(scope="session")
def administrator(cluster: Cluster) -> Kubectl:
    """kubectl of the cluster's administrator."""
    return cluster.administrator


@pytest.fixture(scope="session")
def user(administrator: Kubectl, manifest: Path) -> Iterator[User]:
    give_rights(administrator)
    yield User(administrator.program, administrator.kubeconfig)
    administrator("delete", "-f", str(manifest), "--ignore-not-found", "--wait=false")
    eventually(lambda: not administrator.exists("namespace", NAMESPACE), GONE_SECONDS)
    take_rights(administrator)


@pytest.fixture(scope="session")
def manifest(request: pytest.FixtureRequest) -> Path:
    """The file with the example."""
    found: Path = request.config.getoption("--example")
    return found


@pytest.fixture(scope="session")
def example(user: User, manifest: Path) -> None:
    """Apply the example."""
    user("apply", "-f", str(manifest))


@pytest.fixture
def address(cluster: Cluster, user: User, example: None) -> Iterator[str]:
    """The address of the pool, once it serves."""
    eventually(lambda: serves(user), ENGINE_SECONDS)
    with cluster.reach() as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    """An OpenAI client of an application."""
    with client_of(APPLICATION, address) as client:
        yield client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show of a failed test what the cluster says of its pods: nothing of them is left afterwards."""
    report = yield
    user = getattr(item, "funcargs", {}).get("user")
    if report.when == "call" and report.failed and user is not None:
        report.sections.append(("pods", last_words(user)))
    return report


def last_words(user: User) -> str:
    """The pods, their events, and the ends of their engines' logs, also of those before a restart."""
    names = user.run("-n", NAMESPACE, "get", "pods", "-o=name").stdout.split()
    asked = [("get", "pods", "-o=wide"), ("get", "events", "--sort-by=.lastTimestamp")]
    asked += [
        ("logs", name, "-c=engine", f"--tail={LAST_LINES}", f"--previous={previous}")
        for name in names
        for previous in ("true", "false")
    ]
    done = [(arguments, user.run("-n", NAMESPACE, *arguments)) for arguments in asked]
    return "\n".join(part for arguments, each in done for part in (" ".join(arguments), each.stdout, each.stderr))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the tests measured."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    figures = [figure for report in reports if report.when == "call" for figure in report.user_properties]
    if figures:
        terminalreporter.section("measured")
    for name, value in figures:
        terminalreporter.line(f"{name}: {value}")
