"""Real sidecars of a pool pass requests on to each other: to the engine that begins them sooner, or that still can."""

import asyncio
import json
import signal
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from justitia_api.config import TenantConfig, TenantLimits, ValkeyConfig
from justitia_api.wire import PEER_NAME, RUN_HEADER, TENANT_HEADER, WAITED_HEADER, Refusal
from justitia_benchmarks.paced_pool import MODEL, PacedPool, Pod, pool_config, write_peer_credentials
from justitia_benchmarks.valkey_server import running_valkey
from justitia_sidecar.pool.passing import PeerCredentials
from support.pool_clients import TENANT, Clients

SLOW = ("--per-step=0.04", "--seats=4", "--prefix-cache")


@asynccontextmanager
async def clients(
    folder: Path, engine: Sequence[str] = SLOW, pods: int = 2, limits: TenantLimits | None = None
) -> AsyncIterator[Clients]:
    with running_valkey(folder) as valkey:
        config = pool_config({TENANT: 1.0}, ValkeyConfig(pool="p", addresses=(valkey.address,)))
        if limits is not None:
            tenant = TenantConfig(name=TENANT, weight=1.0, limits=limits)
            config = config.model_copy(update={"tenants": (tenant,)})
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            with PacedPool(config, folder, engine) as pool:
                for _ in range(pods):
                    pool.add()
                found = Clients(pool, client)
                await found.share()
                yield found


async def test_a_client_that_knows_one_pod_is_served_by_all_engines(tmp_path: Path) -> None:
    async with clients(tmp_path) as at:
        answers = await at.ask_at_once(at.pods[0], 48)
        assert all(answer.whole for answer in answers)
        here, there = await at.served()
        assert here + there == 48
        assert min(here, there) >= 16


async def test_an_engine_with_room_serves_what_comes_to_it(tmp_path: Path) -> None:
    async with clients(tmp_path) as at:
        for _ in range(3):
            assert (await at.ask(at.pods[0], 2)).whole
        assert await at.served() == [3, 0]


async def test_turns_of_a_run_go_to_the_engine_that_has_its_prefix_while_that_is_not_far_behind(tmp_path: Path) -> None:
    async with clients(tmp_path) as at:
        for turn in range(6):
            assert (await at.ask(at.pods[turn % 2], **{RUN_HEADER: "agent-7"})).whole
            await at.share()
        assert await at.served() == [6, 0]
        for turn in range(4):
            assert (await at.ask(at.pods[turn % 2])).whole
        assert await at.served() == [8, 2]
        many = await asyncio.gather(*(at.ask(at.pods[1], **{RUN_HEADER: "agent-7"}) for _ in range(48)))
        assert all(answer.whole for answer in many)
        home, elsewhere = await at.served()
        assert home - 8 > elsewhere - 2 >= 2


async def test_requests_of_a_pod_that_shuts_down_are_served_by_the_others(tmp_path: Path) -> None:
    """Those that wait there, its own clients' and others', and those that have begun, to their end."""
    async with clients(tmp_path) as at:
        asked = at.ask_at_once(at.pods[0], 24), at.ask_at_once(at.pods[1], 24)
        await at.eventually(at.pods[0], 1, "justitia_running_requests")
        at.pods[0].sidecar.send_signal(signal.SIGTERM)
        answers = [answer for each in asked for answer in await each]
        assert [answer.body for answer in answers if not answer.whole] == []
        at.pods.pop(0)
        (there,) = await at.served()
        assert there > 32


async def test_of_a_pod_that_dies_only_what_it_had_is_lost_and_each_hears_of_it(tmp_path: Path) -> None:
    async with clients(tmp_path) as at:
        asked = at.ask_at_once(at.pods[0], 48)
        await at.eventually(at.pods[1], 1, "justitia_running_requests")
        at.pods[1].kill()
        answers = await asked
        lost = [answer for answer in answers if not answer.whole]
        assert 0 < len(lost) < 40
        for answer in lost:
            if answer.status == 200:
                assert b"engine_unavailable" in answer.body or answer.body.endswith(b"broken off")
            else:
                assert (answer.code, answer.headers["Retry-After"]) == ("engine_unavailable", "2")
        again = await at.ask_at_once(at.pods[0], 24)
        assert all(answer.whole for answer in again)


async def test_requests_of_an_engine_that_is_gone_are_served_by_the_others(tmp_path: Path) -> None:
    async with clients(tmp_path) as at:
        at.pods[0].engine.kill()
        at.pods[0].engine.wait()
        answers = await at.ask_at_once(at.pods[0], 8)
        assert all(answer.whole for answer in answers)
        assert (await at.served())[1] == 8


async def test_what_an_engine_had_when_it_failed_is_given_to_no_other(tmp_path: Path) -> None:
    """It may have failed of one of these requests."""
    async with clients(tmp_path) as at:
        asked = at.ask_at_once(at.pods[0], 16, 64)
        for pod in at.pods:
            await at.eventually(pod, 4, "justitia_running_requests")
        at.pods[1].engine.kill()
        answers = await asked
        assert 0 < sum(not answer.whole for answer in answers) < 16
        given = [await at.metric(pod, "justitia_requests_total") for pod in at.pods]
        assert sum(given) == 16


async def test_a_request_whose_client_goes_away_ends_where_it_is_served(tmp_path: Path) -> None:
    async with clients(tmp_path) as at:
        flood = at.ask_at_once(at.pods[0], 40, 256)
        await at.eventually(at.pods[1], 4, "justitia_running_requests")
        flood.cancel()
        await at.eventually(at.pods[1], 0, "justitia_running_requests", most=0)
        assert await at.metric(at.pods[1], "justitia_queued_requests") == 0
        assert await at.metric(at.pods[1], "justitia_requests_total", outcome="completed") == 0


async def test_a_refusal_comes_back_as_it_is(tmp_path: Path) -> None:
    async with clients(tmp_path, limits=TenantLimits(queued_requests=4, running_requests=2)) as at:
        answers = await at.ask_at_once(at.pods[0], 24)
        refused = [answer for answer in answers if not answer.whole]
        assert {answer.code for answer in refused} == {Refusal.TENANT_QUEUE_FULL.value}
        assert all("Retry-After" in answer.headers for answer in refused)
        assert await at.metric(at.pods[0], "justitia_passed_on_total", outcome="answered") > 2
        assert min(await at.served()) >= 2


async def test_who_has_no_certificate_of_the_pool_is_not_served_by_the_port_for_sidecars(tmp_path: Path) -> None:
    async with clients(tmp_path) as at:
        stranger = tmp_path / "another-pool"
        stranger.mkdir()
        write_peer_credentials(stranger, "another pool")
        ours, theirs = (PeerCredentials(folder).client for folder in (tmp_path / "pod-0", stranger))
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
        assert await passed_on(at.pods[1], ours) == 200
        for context in (theirs, bare):
            with pytest.raises((aiohttp.ClientError, OSError)):
                await passed_on(at.pods[1], context)
        with pytest.raises(aiohttp.ClientError):
            await passed_on(at.pods[1], None)


async def test_a_client_cannot_say_whose_its_request_is(tmp_path: Path) -> None:
    async with clients(tmp_path, pods=1) as at:
        forged = await at.ask(at.pods[0], 1, **{TENANT_HEADER: "another", WAITED_HEADER: "1e9"})
        assert forged.whole
        headers = {TENANT_HEADER: TENANT, WAITED_HEADER: "0"}
        async with at.client.post(at.pods[0].url, headers=headers) as keyless:
            assert keyless.status == 401


async def test_a_sidecar_with_foreign_certificates_is_passed_over(tmp_path: Path) -> None:
    """As a pod of another pool would be that writes its address into our log."""
    async with clients(tmp_path) as at:
        at.pods[1].sidecar.kill()
        at.pods[1].sidecar.wait()
        write_peer_credentials(tmp_path / "pod-1", "another pool")
        at.pods[1].restart_sidecar()
        await at.share()
        answers = await at.ask_at_once(at.pods[0], 24)
        assert all(answer.whole for answer in answers)
        assert await at.served() == [24, 0]
        assert await at.metric(at.pods[0], "justitia_passed_on_total", outcome="handed_back") >= 1


async def passed_on(pod: Pod, context: ssl.SSLContext | None) -> int:
    """The status of a request that comes to the port for sidecars; without a context, in clear text."""
    body = {"model": MODEL, "prompt": [1], "max_tokens": 1, "ignore_eos": True, "stream": True}
    headers = {"content-type": "application/json", TENANT_HEADER: TENANT, WAITED_HEADER: "0"}
    scheme = "http" if context is None else "https"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context or True)) as client,
        client.post(
            f"{scheme}://127.0.0.1:{pod.environment['JUSTITIA_PEER_PORT']}/v1/completions",
            data=json.dumps(body),
            headers=headers,
            server_hostname=PEER_NAME if context is not None and context.check_hostname else None,
        ) as answer,
    ):
        await answer.read()
        return answer.status
