"""Who may ask the admin port for what."""

import asyncio

import httpx2 as httpx
import pytest

from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.ports.admin import build_admin
from justitia_sidecar.service import Sidecar

NOT_CONFIGURED = 503
REQUESTS = [("GET", "/internal/status"), ("GET", "/internal/queue"), ("POST", "/internal/drain")]


def asked(method: str, path: str, host: str) -> int:
    """The status that a client of that address gets from a sidecar without a configuration."""

    async def ask() -> int:
        async with EngineClient.session() as session:
            sidecar = Sidecar(EngineClient("http://127.0.0.1:1", session), SidecarMetrics(), lambda: 0.0, None)
            transport = httpx.ASGITransport(build_admin(sidecar.report), client=(host, 50_000))
            async with httpx.AsyncClient(transport=transport, base_url="http://sidecar") as client:
                return (await client.request(method, path)).status_code

    return asyncio.run(ask())


@pytest.mark.parametrize(("method", "path"), REQUESTS)
@pytest.mark.parametrize("host", ["10.1.2.3", "fd00::7"])
def test_from_another_pod_nothing_is_told_of_requests_and_nothing_drained(method: str, path: str, host: str) -> None:
    assert asked(method, path, host) == 403


@pytest.mark.parametrize(("method", "path"), REQUESTS)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_processes_of_the_same_pod_are_answered(method: str, path: str, host: str) -> None:
    assert asked(method, path, host) == (200 if path == "/internal/drain" else NOT_CONFIGURED)


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", NOT_CONFIGURED), ("/metrics", 200)])
def test_probes_and_metrics_answer_to_everybody(path: str, status: int) -> None:
    assert asked("GET", path, "10.1.2.3") == status
