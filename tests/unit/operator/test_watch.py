"""What kopf is relied on for: it tells of everything, retries, ends with what it began, and writes nothing."""

import asyncio
import getpass
import itertools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import kopf
import pytest

from justitia_operator.runtime import watch as module
from justitia_operator.runtime.controller import Controller
from justitia_operator.runtime.watch import build_settings, login, watch
from justitia_operator.world.objects import Json, Kind, Ref, ref_of
from support.misbehaving_api_server import MisbehavingApiServer, serving

ACCOUNT = kopf.ConnectionInfo(server="https://kubernetes.default.svc", token="t")
KINDS = (Kind.NAMESPACE, Kind.SECRET)
LIMIT = 30


class Observer:
    """Notes what it is told, and in which thread."""

    def __init__(self) -> None:
        self.there: set[Ref] = set()
        self.threads: set[threading.Thread] = set()
        self.told, self.ended = asyncio.Event(), asyncio.Event()

    def seen(self, obj: Json) -> None:
        self.there.add(ref_of(obj))
        self._note()

    def gone(self, obj: Json) -> None:
        self.there.discard(ref_of(obj))
        self._note()

    def _note(self) -> None:
        self.threads.add(threading.current_thread())
        self.told.set()

    async def until(self, *there: Ref) -> None:
        while self.there != set(there):
            self.told.clear()
            await self.told.wait()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)


@asynccontextmanager
async def watching(server: MisbehavingApiServer, folder: Path) -> AsyncIterator[Observer]:
    """The observer of all that the server has."""
    observer = Observer()
    with pytest.MonkeyPatch.context() as patch:
        async with asyncio.timeout(LIMIT), serving(server, folder) as kubeconfig:
            patch.setenv("KUBECONFIG", str(kubeconfig))
            task = asyncio.create_task(watch(cast("Controller", observer), KINDS, None))
            task.add_done_callback(lambda _: observer.ended.set())
            try:
                yield observer
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


def some(kind: Kind, name: str, namespace: str = "") -> Json:
    where = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1", **where}}


TEAM = some(Kind.NAMESPACE, "team")
KEYS = some(Kind.SECRET, "keys", "team")
TEAM_REF, KEYS_REF = Ref(Kind.NAMESPACE, "", "team"), Ref(Kind.SECRET, "team", "keys")


@pytest.fixture
def server() -> MisbehavingApiServer:
    server = MisbehavingApiServer()
    server.objects |= {Kind.NAMESPACE: [TEAM], Kind.SECRET: [KEYS]}
    return server


async def test_everything_that_exists_is_told_though_one_list_is_late(
    server: MisbehavingApiServer, tmp_path: Path
) -> None:
    server.held[Kind.SECRET] = asyncio.Event()
    async with watching(server, tmp_path) as observer:
        await observer.until(TEAM_REF)
        await server.asked[Kind.SECRET].wait()
        server.held[Kind.SECRET].set()
        await observer.until(TEAM_REF, KEYS_REF)


async def test_what_comes_and_goes_is_told_and_all_in_the_operators_own_thread(
    server: MisbehavingApiServer, tmp_path: Path
) -> None:
    async with watching(server, tmp_path) as observer:
        await observer.until(TEAM_REF, KEYS_REF)
        server.tell(Kind.SECRET, "DELETED", KEYS)
        await observer.until(TEAM_REF)
        server.tell(Kind.SECRET, "ADDED", KEYS)
        await observer.until(TEAM_REF, KEYS_REF)
        assert observer.threads == {threading.current_thread()}


async def test_a_right_that_is_missing_is_waited_for_longer_than_kopf_would_and_stops_nothing_else(
    server: MisbehavingApiServer, tmp_path: Path
) -> None:
    server.refusals[Kind.SECRET] = 1000
    async with watching(server, tmp_path) as observer:
        await observer.until(TEAM_REF)
        server.refusals[Kind.SECRET] = 20
        await observer.until(TEAM_REF, KEYS_REF)


async def test_nothing_is_written_to_what_is_watched(server: MisbehavingApiServer, tmp_path: Path) -> None:
    async with watching(server, tmp_path) as observer:
        await observer.until(TEAM_REF, KEYS_REF)
        server.tell(Kind.SECRET, "DELETED", KEYS)
        await observer.until(TEAM_REF)
    assert {method for method, _ in server.requests} == {"GET"}


async def test_it_ends_with_its_threads_and_leaves_other_tasks_alone(
    server: MisbehavingApiServer, tmp_path: Path
) -> None:
    before = set(threading.enumerate())
    async with watching(server, tmp_path) as observer:
        await observer.until(TEAM_REF, KEYS_REF)
        later = asyncio.create_task(asyncio.Event().wait())
    assert not later.done()
    later.cancel()
    left = {thread.name.partition("_")[0] for thread in set(threading.enumerate()) - before}
    assert left <= {"asyncio"}, "the pool of the loop keeps its threads"


async def test_it_fails_with_what_kopf_fails_with(server: MisbehavingApiServer, tmp_path: Path) -> None:
    server.tell(Kind.SECRET, "ERROR", {"code": 500, "message": "broken"})
    with pytest.raises(Exception, match=r"Error in the watch-stream.*broken"):
        async with watching(server, tmp_path) as observer:
            await observer.ended.wait()


async def test_it_watches_as_a_user_whom_the_machine_has_no_name_for(
    monkeypatch: pytest.MonkeyPatch, server: MisbehavingApiServer, tmp_path: Path
) -> None:
    def unnamed() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr(getpass, "getuser", unnamed)
    async with watching(server, tmp_path) as observer:
        await observer.until(TEAM_REF, KEYS_REF)
        assert not observer.ended.is_set()


@pytest.mark.parametrize(
    ("host", "server"),
    [
        pytest.param("10.0.0.1", "https://10.0.0.1:443", id="IPv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="IPv6"),
    ],
)
async def test_a_pod_needs_no_dns_to_reach_the_api_server(
    monkeypatch: pytest.MonkeyPatch, host: str, server: str
) -> None:
    def account(**_: Any) -> kopf.ConnectionInfo:
        return ACCOUNT

    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setattr(kopf, "login_with_service_account", account)
    connection = await login()
    assert connection is not None
    assert (connection.server, connection.token) == (server, "t")


def test_watches_try_again_for_ever_and_never_wait_long() -> None:
    for _ in range(2):
        seconds = list(itertools.islice(build_settings().networking.error_backoffs, 1000))
        assert len(seconds) == 1000
        assert max(seconds) <= 5
