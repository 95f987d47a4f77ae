"""The operator's client and the sidecar's control port, over real TLS connections."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import httpx2 as httpx
import pytest
import uvicorn

from justitia_api.config import KeyEntry, KeyTable, PoolConfig, PoolDocuments, TenantConfig, digest_of, key_digest
from justitia_api.wire import CERTIFICATE_FILE, DOCUMENTS_PATH, PRIVATE_KEY_FILE, STATUS_PATH, TOKEN_FILE
from justitia_operator.build.credentials import PERIOD, make_credentials, period_at
from justitia_operator.runtime.control import Control
from justitia_operator.world.objects import Kind, Push, Ref
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.ports.control import LONGEST_DOCUMENTS, ControlCredentials, build_control
from justitia_sidecar.refusals import RefusalError
from justitia_sidecar.service import Sidecar

PEPPER = "5a" * 32
UID = "0b5e7a9c-0000-4000-8000-000000000001"
NOW = datetime.now(UTC)
"""The real time: TLS takes no other clock."""
KEY = b"a-long-enough-token"


def documents(generation: int, weight: float = 1.0, key: bytes = KEY) -> PoolDocuments:
    tenant = TenantConfig(name="alice", weight=weight)
    entry = KeyEntry(digest=key_digest(PEPPER, key), tenant="alice")
    return PoolDocuments(
        configuration=PoolConfig(generation=generation, namespace="apps", name="shared", model="m", tenants=(tenant,)),
        keys=KeyTable(generation=generation, pepper=PEPPER, keys=(entry,)),
    )


def push(told: PoolDocuments | bytes, generation: int = 1, uid: str = UID) -> Push:
    body = told if isinstance(told, bytes) else told.model_dump_json(by_alias=True).encode()
    return Push(Ref(Kind.POD, "apps", "pod"), "containerd://one", "127.0.0.1", uid, generation, body)


def write_credentials(folder: Path, moment: datetime, uid: str = UID) -> None:
    made = make_credentials(PEPPER, uid, period_at(uid, moment))
    for name, text in (
        (CERTIFICATE_FILE, made.certificate),
        (PRIVATE_KEY_FILE, made.private_key),
        (TOKEN_FILE, made.token),
    ):
        (folder / name).write_text(text)


@asynccontextmanager
async def serving(
    folder: Path, *traces: aiohttp.TraceConfig
) -> AsyncIterator[tuple[Sidecar, Control, ControlCredentials]]:
    """A sidecar whose control port listens, and the operator's client for it, whose clock stands at `NOW`."""
    credentials = ControlCredentials(folder)
    listener = socket.create_server(("127.0.0.1", 0))
    async with EngineClient.session() as session, aiohttp.ClientSession(trace_configs=list(traces)) as http:
        sidecar = Sidecar(EngineClient("http://127.0.0.1:1", session), SidecarMetrics(), lambda: 0.0, None)
        server = uvicorn.Server(
            uvicorn.Config(
                build_control(sidecar.parts.current, sidecar.report, credentials),
                log_level="error",
                lifespan="off",
                ssl_context_factory=lambda config, default: credentials.context,
            )
        )
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield sidecar, Control(http, PEPPER, lambda: NOW, listener.getsockname()[1]), credentials
        finally:
            server.should_exit = True
            await running


async def test_what_is_told_is_in_effect_and_answered(tmp_path: Path) -> None:
    write_credentials(tmp_path, NOW)
    async with serving(tmp_path) as (sidecar, control, _):
        report = await control.tell(push(documents(3, weight=7.0), 3))
        assert (report.generation, report.told, report.instance, report.problem) == (3, 3, "containerd://one", "")
        assert sidecar.parts.current.configured().config.tenants[0].weight == 7.0
        assert sidecar.parts.current.tenant(b"Bearer " + KEY) == "alice"
        assert (await control.ask(push(b"", 3), keep=False)).generation == 3


async def test_an_older_generation_changes_nothing_and_the_newer_one_is_answered(tmp_path: Path) -> None:
    write_credentials(tmp_path, NOW)
    async with serving(tmp_path) as (sidecar, control, _):
        await control.tell(push(documents(5, 2.0), 5))
        report = await control.tell(push(documents(4, 9.0, key=b"another-long-token"), 4))
        assert report.generation == 5
        assert sidecar.parts.current.configured().config.tenants[0].weight == 2.0
        assert sidecar.parts.current.tenant(b"Bearer " + KEY) == "alice"


async def test_an_older_generation_replaces_the_documents_that_it_names_and_no_others(tmp_path: Path) -> None:
    """A request that comes late names what was in effect when it was sent."""
    write_credentials(tmp_path, NOW)
    async with serving(tmp_path) as (sidecar, control, _):
        foreign = await control.tell(push(documents(10**6, 9.0), 10**6))
        repair = replace(push(documents(5, 2.0), 5), replaces=foreign.documents)
        assert (await control.tell(repair)).generation == 5
        assert (await control.tell(push(documents(6, 3.0), 6))).generation == 6
        assert (await control.tell(repair)).generation == 6
        assert sidecar.parts.current.configured().config.tenants[0].weight == 3.0


async def test_the_digest_tells_what_is_in_effect_and_not_how_it_was_written(tmp_path: Path) -> None:
    write_credentials(tmp_path, NOW)
    async with serving(tmp_path) as (_, control, _):
        told = await control.tell(push(documents(1)))
        loose = json.dumps(json.loads(documents(1).model_dump_json(by_alias=True)), indent=3, sort_keys=True)
        assert (await control.tell(push(loose.encode()))).documents == told.documents
        assert (await control.tell(push(documents(1, weight=2.0)))).documents != told.documents
        assert (await control.tell(push(documents(1, key=b"another-long-token")))).documents != told.documents


@pytest.mark.parametrize(("keep", "wanted"), [(True, 1), (False, 3)], ids=["kept", "not kept"])
async def test_a_connection_is_kept_for_the_next_time_if_wanted(tmp_path: Path, keep: bool, wanted: int) -> None:
    write_credentials(tmp_path, NOW)
    made: list[object] = []

    async def count(*event: object) -> None:
        made.append(event)

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(count)
    async with serving(tmp_path, trace) as (_, control, _):
        await control.tell(push(documents(1)))
        made.clear()
        for _ in range(3):
            assert not (await control.ask(push(b""), keep=keep)).problem
    assert len(made) == wanted


@pytest.mark.parametrize(("silences", "wanted"), [(1, 1), (2, None)], ids=["once", "again"])
async def test_who_does_not_answer_once_is_asked_again(tmp_path: Path, silences: int, wanted: int | None) -> None:
    write_credentials(tmp_path, NOW)
    to_come = [TimeoutError()] * silences

    async def be_silent(*event: object) -> None:
        if to_come:
            raise to_come.pop()

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(be_silent)
    async with serving(tmp_path, trace) as (_, control, _):
        assert (await control.tell(push(documents(1)))).generation == wanted


async def test_a_pod_that_has_not_seen_the_new_period_yet_is_reached_by_the_old(tmp_path: Path) -> None:
    write_credentials(tmp_path, NOW - PERIOD)
    async with serving(tmp_path) as (_, control, credentials):
        assert (await control.tell(push(documents(1)))).generation == 1
        write_credentials(tmp_path, NOW)
        credentials.refresh()
        assert (await control.ask(push(b""), keep=False)).generation == 1


@pytest.mark.parametrize(
    ("moment", "uid"), [(NOW - 2 * PERIOD, UID), (NOW, "another-pool")], ids=["long ago", "another pool's"]
)
async def test_a_pod_with_other_credentials_is_not_trusted(tmp_path: Path, moment: datetime, uid: str) -> None:
    write_credentials(tmp_path, moment, uid)
    async with serving(tmp_path) as (sidecar, control, _):
        report = await control.tell(push(documents(1)))
        assert (report.generation, report.problem) == (None, "its certificate is not that of the pool")
        assert sidecar.parts.current.in_effect is None


async def test_who_is_not_there_is_reported(tmp_path: Path) -> None:
    write_credentials(tmp_path, NOW)
    async with serving(tmp_path) as (_, control, _):
        report = await control.tell(replace(push(documents(1)), address="127.0.0.2"))
        assert report.generation is None
        assert report.problem


@pytest.mark.parametrize("authorization", ["", "Bearer ", "Bearer wrong", "Basic {token}", "{token}"])
async def test_without_the_token_nothing_is_told_or_changed(tmp_path: Path, authorization: str) -> None:
    write_credentials(tmp_path, NOW)
    token = (tmp_path / TOKEN_FILE).read_text()
    async with serving(tmp_path) as (sidecar, _, credentials):
        transport = httpx.ASGITransport(build_control(sidecar.parts.current, sidecar.report, credentials))
        async with httpx.AsyncClient(transport=transport, base_url="https://pod") as client:
            headers = {"Authorization": authorization.format(token=token)}
            body = documents(1).model_dump_json(by_alias=True)
            assert (await client.put(DOCUMENTS_PATH, content=body, headers=headers)).status_code == 401
            assert (await client.get(STATUS_PATH, headers=headers)).status_code == 401
            assert (await client.get("/docs", headers=headers)).status_code == 401
        assert sidecar.parts.current.in_effect is None


async def test_what_is_no_document_is_refused_and_says_where_without_values(tmp_path: Path) -> None:
    write_credentials(tmp_path, NOW)
    token = (tmp_path / TOKEN_FILE).read_text()
    async with serving(tmp_path) as (sidecar, control, credentials):
        await control.tell(push(documents(1)))
        transport = httpx.ASGITransport(build_control(sidecar.parts.current, sidecar.report, credentials))
        async with httpx.AsyncClient(transport=transport, base_url="https://pod") as client:
            headers = {"Authorization": f"Bearer {token}"}
            spoilt = documents(2).model_dump_json(by_alias=True).replace(PEPPER, "not-hex")
            answer = await client.put(DOCUMENTS_PATH, content=spoilt, headers=headers)
            assert answer.status_code == 422
            assert "keys: pepper" in answer.text
            assert "not-hex" not in answer.text
            huge = b"x" * (LONGEST_DOCUMENTS + 1)
            assert (await client.put(DOCUMENTS_PATH, content=huge, headers=headers)).status_code == 413
        assert sidecar.parts.current.configured().config.generation == 1


async def test_documents_of_a_later_release_are_taken_as_far_as_they_are_understood(tmp_path: Path) -> None:
    write_credentials(tmp_path, NOW)
    other = b"another-long-token"
    async with serving(tmp_path) as (sidecar, control, _):
        await control.tell(push(documents(1)))
        later = json.loads(documents(2, weight=7.0, key=other).model_dump_json(by_alias=True))
        later |= {"colour": "red"}
        later["configuration"]["colour"] = later["configuration"]["tenants"][0]["colour"] = "red"
        later["keys"]["colour"] = later["keys"]["keys"][0]["colour"] = "red"
        report = await control.tell(push(json.dumps(later).encode(), 2))
        assert (report.generation, report.not_understood) == (2, "")
        assert report.documents == digest_of(later["configuration"], later["keys"])
        later["configuration"] |= {"generation": 3, "scheduling": {"policy": "Lottery"}}
        later["configuration"]["tenants"][0]["weight"] = 9.0
        report = await control.tell(push(json.dumps(later).encode(), 3))
        assert report.generation == 3
        assert report.not_understood.startswith("scheduling.policy")
        assert sidecar.parts.current.configured().config.tenants[0].weight == 9.0
        assert sidecar.parts.current.tenant(b"Bearer " + other) == "alice"
        assert (await control.tell(push(documents(4)))).not_understood == ""


async def test_keys_are_in_effect_though_the_configuration_is_not_understood(tmp_path: Path) -> None:
    write_credentials(tmp_path, NOW)
    other = b"another-long-token"
    async with serving(tmp_path) as (sidecar, control, credentials):
        await control.tell(push(documents(1)))
        later = json.loads(documents(2, key=other).model_dump_json(by_alias=True))
        later["configuration"]["version"] = "v2"
        transport = httpx.ASGITransport(build_control(sidecar.parts.current, sidecar.report, credentials))
        async with httpx.AsyncClient(transport=transport, base_url="https://pod") as client:
            headers = {"Authorization": f"Bearer {(tmp_path / TOKEN_FILE).read_text()}"}
            answer = await client.put(DOCUMENTS_PATH, content=json.dumps(later), headers=headers)
        assert answer.status_code == 422
        assert "configuration: version" in answer.text
        assert "keys are in effect" in answer.text
        assert sidecar.parts.current.tenant(b"Bearer " + other) == "alice"
        with pytest.raises(RefusalError):
            sidecar.parts.current.tenant(b"Bearer " + KEY)
        assert sidecar.parts.current.configured().config.generation == 1


def test_missing_credentials_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=TOKEN_FILE):
        ControlCredentials(tmp_path)
