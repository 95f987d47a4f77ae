"""Starting, losing the engine, draining and stopping: each with a sidecar process of its own."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

from justitia_cli.local.ports import free_ports
from support.serving import KEYS, MODEL, Vllm, answers, eventually, http, running_sidecar

BODY = {"model": MODEL, "prompt": [7, 8, 9], "max_tokens": 2}
HEADERS = {"authorization": f"Bearer {KEYS['gold']}"}


def test_without_an_engine_requests_are_refused_with_503(tmp_path: Path) -> None:
    with running_sidecar(tmp_path, f"http://127.0.0.1:{free_ports(1)[0]}", wait=False) as sidecar:
        assert not answers(f"{sidecar.admin}/readyz")
        response = http.post(f"{sidecar.public}/v1/completions", json=BODY, headers=HEADERS)
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "engine_unavailable"
        assert int(response.headers["retry-after"]) >= 1


def test_draining_finishes_what_has_started_and_refuses_the_rest(tmp_path: Path, vllm: Vllm) -> None:
    long = BODY | {"max_tokens": 300, "ignore_eos": True, "stream": True}
    with running_sidecar(tmp_path, vllm.url) as sidecar:
        url = f"{sidecar.public}/v1/completions"
        with vllm.braked() as release, http.stream("POST", url, json=long, headers=HEADERS) as started:
            lines = started.iter_lines()
            next(lines)
            sidecar.process.send_signal(signal.SIGTERM)
            eventually("it drains", lambda: sidecar.status()["draining"])
            refused = http.post(url, json=BODY, headers=HEADERS)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "draining"
            assert not answers(f"{sidecar.admin}/readyz")
            release()
            assert [line for line in lines if line][-1] == "data: [DONE]"
        assert sidecar.process.wait(60) == 0


def test_the_drain_call_returns_when_nothing_is_open(tmp_path: Path, vllm: Vllm) -> None:
    with running_sidecar(tmp_path, vllm.url) as sidecar:
        assert http.post(f"{sidecar.admin}/internal/drain").json() == {"open_requests": 0}


def test_a_busy_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment = {
            "JUSTITIA_CONFIG_FILE": str(tmp_path / "c"),
            "JUSTITIA_KEYS_FILE": str(tmp_path / "k"),
            "JUSTITIA_HOST": "127.0.0.1",
            "JUSTITIA_PORT": str(taken.getsockname()[1]),
        }
        command = [sys.executable, "-m", "justitia_sidecar"]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "free the port or set JUSTITIA_PORT" in ended.stderr


def test_missing_settings_are_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "justitia_sidecar"]
    ended = subprocess.run(command, env={}, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "JUSTITIA_CONFIG_FILE: Field required" in ended.stderr
