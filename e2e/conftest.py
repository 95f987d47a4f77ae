"""A cluster for the journeys: the one that is up, or one for as long as they take."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from justitia_e2e.cluster import kubectl_of, look
from justitia_e2e.machine import State
from support.kubectl import Kubectl

PROGRAM = Path(__file__).parent / "cluster"


@pytest.fixture(scope="session")
def administrator() -> Iterator[Kubectl]:
    """kubectl of the cluster's administrator, with what is here installed."""
    state = State()
    ours = not any(part.works for part in look(state))
    subprocess.run([PROGRAM, "up"], check=True)
    yield kubectl_of(state)
    if ours:
        subprocess.run([PROGRAM, "down"], check=True)
