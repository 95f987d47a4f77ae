"""A pool of two engines on a real node, with the chart's Valkey between them, knows when it shares and when not."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from justitia_api.wire import PUBLIC_PORT
from justitia_e2e.example import (
    APPLICATION,
    CHANGE_SECONDS,
    ENGINE_SECONDS,
    NAMESPACE,
    POOL,
    TENANTS,
    Record,
    User,
    client_of,
    complete,
    justitia,
    pods,
    timed,
)
from justitia_e2e.install import NAMESPACE as SYSTEM
from justitia_e2e.install import VALKEY
from support.kubectl import Kubectl, eventually

pytestmark = pytest.mark.node

LIGHT, HEAVY = "summaries", APPLICATION
"""Applications of the tenants with weights 1 and 3."""
CLIENTS = 24
TOKENS = 32
SECONDS = 45.0
SHARED = ("True", "Shared")


def fairness(user: User) -> tuple[str, str] | None:
    found: tuple[str, str] | None = user.condition("servingpool", POOL, NAMESPACE, "PoolFairness")
    return found


@contextmanager
def two_engines(user: User) -> Iterator[list[str]]:
    """The addresses of their pods."""
    user("-n", NAMESPACE, "scale", f"servingpool/{POOL}", "--replicas=2")
    eventually(lambda: fairness(user) == SHARED, ENGINE_SECONDS)
    yield sorted(pod["status"]["podIP"] for pod in pods(user))
    user("-n", NAMESPACE, "scale", f"servingpool/{POOL}", "--replicas=1")
    eventually(lambda: fairness(user) == ("True", "SingleReplica") and len(pods(user)) == 1, ENGINE_SECONDS)


@contextmanager
def flood(application: str, address: str) -> Iterator[None]:
    """Keep `CLIENTS` requests under way at this pod."""
    over = threading.Event()

    def ask(client: openai.OpenAI) -> None:
        while not over.is_set():
            complete(client, TOKENS)

    with client_of(application, f"{address}:{PUBLIC_PORT}") as client, ThreadPoolExecutor(CLIENTS) as threads:
        asking = [threads.submit(ask, client) for _ in range(CLIENTS)]
        try:
            yield
        finally:
            over.set()
    for each in asking:
        each.result()


def statuses(user: User, folder: Path) -> list[Any]:
    """What each pod says of itself."""
    done = justitia(user, folder, "top", "--json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout).values())


def served(found: Sequence[Any]) -> dict[str, float]:
    """What each tenant was served by all engines."""
    total = dict.fromkeys(TENANTS, 0.0)
    for status in found:
        for tenant in status["tenants"]:
            total[tenant["name"]] += tenant["service"]
    return total


def test_two_engines_share_while_valkey_is_there_and_again_when_it_is_back(
    user: User, administrator: Kubectl, address: str, tmp_path: Path, record_property: Record
) -> None:
    """Both pods are asked directly; `address` is there once the pool serves."""
    with ExitStack() as stack:
        with timed(record_property, "a second engine, until both share"):
            pods_of_engines = stack.enter_context(two_engines(user))
        stack.enter_context(flood(LIGHT, pods_of_engines[0]))
        for pod in pods_of_engines:
            stack.enter_context(flood(HEAVY, pod))
        before, began = served(statuses(user, tmp_path)), time.monotonic()
        eventually(lambda: time.monotonic() > began + SECONDS, 2 * SECONDS)
        found = statuses(user, tmp_path)
        after = served(found)
        _valkey_goes_and_comes(user, administrator, record_property)
    passed_on = [status["sharing"]["passedOn"] for status in found]
    record_property("requests that the pods passed on to each other", passed_on)
    assert max(passed_on) > 0
    light, heavy = (after[tenant] - before[tenant] for tenant in TENANTS)
    record_property(
        "engine seconds of two tenants of weights 1 and 3, of which the first reaches one engine",
        f"{light:.1f}, {heavy:.1f}",
    )


def _valkey_goes_and_comes(user: User, administrator: Kubectl, record: Record) -> None:
    """Engines share by themselves meanwhile, and as one again afterwards."""
    administrator("-n", SYSTEM, "scale", f"deployment/{VALKEY}", "--replicas=0")
    eventually(lambda: fairness(user) == ("False", "NotReached"), CHANGE_SECONDS)
    administrator("-n", SYSTEM, "scale", f"deployment/{VALKEY}", "--replicas=1")
    with timed(record, "Valkey is back, until all engines share again"):
        eventually(lambda: fairness(user) == SHARED, CHANGE_SECONDS)
