"""A cluster for the tests: the one that is up, or one for as long as they take; a user, and the example applied."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from justitia_e2e.cluster import kubectl_of, look
from justitia_e2e.example import (
    ENGINE_SECONDS,
    EXAMPLE,
    KEY,
    NAMESPACE,
    User,
    base_url,
    give_rights,
    serves,
)
from justitia_e2e.machine import State
from support.kubectl import Kubectl, eventually

PROGRAM = Path(__file__).parent / "cluster"
GONE_SECONDS = 240.0


@pytest.fixture(scope="session")
def administrator() -> Iterator[Kubectl]:
    """kubectl of the cluster's administrator, with what is here installed."""
    state = State()
    ours = not any(part.works for part in look(state))
    subprocess.run([PROGRAM, "up"], check=True)
    yield kubectl_of(state)
    if ours:
        subprocess.run([PROGRAM, "down"], check=True)


@pytest.fixture(scope="session")
def user(administrator: Kubectl) -> Iterator[User]:
    give_rights(administrator)
    yield User(administrator.program, administrator.kubeconfig)
    administrator("delete", "-f", str(EXAMPLE), "--ignore-not-found", "--wait=false")
    eventually(lambda: not administrator.exists("namespace", NAMESPACE), GONE_SECONDS)


@pytest.fixture(scope="session")
def example(user: User) -> None:
    """The example is applied."""
    user("apply", "-f", str(EXAMPLE))


@pytest.fixture
def client(user: User, example: None) -> Iterator[openai.OpenAI]:
    """An OpenAI client of an application whose pool serves."""
    eventually(lambda: serves(user), ENGINE_SECONDS)
    with openai.OpenAI(base_url=base_url(user), api_key=KEY, timeout=120, max_retries=0) as client:
        yield client


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured on the way."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    figures = [figure for report in reports if report.when == "call" for figure in report.user_properties]
    if figures:
        terminalreporter.section("measured")
    for name, value in figures:
        terminalreporter.line(f"{name}: {value}")
