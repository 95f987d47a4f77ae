"""How the informer reaches the API server."""

import itertools
from typing import Any

import kopf
import pytest

from justitia_operator.runtime import handlers

ACCOUNT = kopf.ConnectionInfo(server="https://kubernetes.default.svc", token="t")


@pytest.fixture(autouse=True)
def in_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    def account(**_: Any) -> kopf.ConnectionInfo:
        return ACCOUNT

    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(kopf, "login_with_service_account", account)


@pytest.mark.parametrize(
    ("host", "server"),
    [
        pytest.param("10.0.0.1", "https://10.0.0.1:443", id="IPv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="IPv6"),
    ],
)
def test_a_pod_needs_no_dns_to_reach_the_api_server(monkeypatch: pytest.MonkeyPatch, host: str, server: str) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    connection = handlers._login()
    assert connection is not None
    assert (connection.server, connection.token) == (server, "t")


def test_watches_try_again_for_ever_and_never_wait_long() -> None:
    for _ in range(2):
        seconds = list(itertools.islice(handlers.build_settings().networking.error_backoffs, 1000))
        assert len(seconds) == 1000
        assert max(seconds) <= 5
