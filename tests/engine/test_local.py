"""`justitia local up` with real vLLM: from the example file to answers and edits, and nothing is left at the end."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from openai import OpenAI

from justitia_cli.local.ports import free_ports
from support.serving import answers, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "llmapp.yaml"
KEY = "example-only-support-0123456789abcdef"
START_SECONDS = 300


@dataclass
class RunningLocal:
    process: "subprocess.Popen[bytes]"
    file: Path
    log: Path
    ports: dict[str, int]

    @property
    def client(self) -> OpenAI:
        url = f"http://127.0.0.1:{self.ports['--port']}/applications/demo/chat/v1"
        return OpenAI(base_url=url, api_key=KEY, max_retries=0)

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['--admin-port']}"

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.admin_url}/internal/status") as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def weight(self, tenant: str) -> float:
        return next(float(t["weight"]) for t in self.status()["tenants"] if t["name"] == tenant)

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert old in text
        edited = self.file.with_suffix(".edited")
        edited.write_text(text.replace(old, new))
        edited.replace(self.file)


@pytest.fixture(scope="module", params=["the example", "in front of the engine"])
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLocal]:
    directory = tmp_path_factory.mktemp("local")
    file, log = directory / "llmapp.yaml", directory / "log"
    text = EXAMPLE.read_text()
    assert "scheduling:\n" in text
    if request.param == "in front of the engine":
        text = text.replace("scheduling:\n", "scheduling:\n    enforcement: Sidecar\n")
    file.write_text(text)
    ports = dict(zip(("--port", "--admin-port", "--engine-port"), free_ports(3), strict=True))
    options = [f"{option}={port}" for option, port in ports.items()]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "justitia_cli", "local", "up", f"--file={file}", *options],
            env=os.environ | {"XDG_STATE_HOME": str(directory / "state")},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    running = RunningLocal(process, file, log, ports)
    try:
        eventually("it is ready", lambda: process.poll() is not None or "ready:" in log.read_text(), START_SECONDS)
        assert process.poll() is None, log.read_text()
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def test_the_openai_client_is_answered_streaming_and_not(local: RunningLocal) -> None:
    messages: Any = [{"role": "user", "content": "Hello"}]
    whole = local.client.chat.completions.create(model="demo", messages=messages, max_tokens=8)
    assert whole.usage is not None
    assert whole.usage.completion_tokens > 0
    chunks = list(local.client.chat.completions.create(model="demo", messages=messages, max_tokens=8, stream=True))
    assert chunks[-1].choices[0].finish_reason is not None


def test_a_tenant_is_charged_for_what_it_was_served(local: RunningLocal) -> None:
    def service() -> float:
        return next(float(t["service"]) for t in local.status()["tenants"] if t["name"] == "support")

    before, messages = service(), [{"role": "user", "content": "Hello"}]
    eventually(
        "the service has grown",
        lambda: (
            local.client.chat.completions.create(model="demo", messages=messages, max_tokens=8)  # type: ignore[call-overload]
            and service() > before
        ),
    )


def test_who_looks_sees_its_tenants_and_its_queue(local: RunningLocal) -> None:
    def look(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "justitia_cli", *arguments, "--url", local.admin_url]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert {"support", "batch"} <= set(look("top").stdout.split())
    assert f"{local.admin_url}   0 waiting" in look("explain").stdout
    assert json.loads(look("explain", "--json").stdout) == {local.admin_url: []}
    absent = look("explain", "agent-7")
    assert (absent.returncode, absent.stderr.startswith("justitia: agent-7 does not wait")) == (1, True)


def test_the_pools_conditions_are_told(local: RunningLocal) -> None:
    def told() -> bool:
        conditions = local.status()["conditions"]
        return all(f"{condition['type']} is True" in local.log.read_text() for condition in conditions)

    eventually("all of them hold", told)


def test_an_edit_of_the_file_comes_into_force(local: RunningLocal) -> None:
    local.edit('{name: silver, weight: "2"}', '{name: silver, weight: "3"}')
    eventually("the weight is 3", lambda: local.weight("batch") == 3)


def test_a_mistake_in_an_edit_leaves_the_old_configuration_in_effect(local: RunningLocal) -> None:
    before = local.status()["generation"]
    local.edit("tier: bronze", "tier: platinum")
    eventually("it is told", lambda: "not applied" in local.log.read_text())
    assert "UnknownTier" in local.log.read_text()
    assert local.status()["generation"] == before
    local.edit("tier: platinum", "tier: bronze")


def test_a_second_one_is_refused_with_one_line(local: RunningLocal) -> None:
    again = subprocess.run(
        [sys.executable, "-m", "justitia_cli", "local", "up", "-f", str(local.file)],
        env=os.environ | {"XDG_STATE_HOME": str(local.file.parent / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 2
    assert again.stderr.strip().splitlines() == ["justitia: a local pool is up already: `justitia local down` ends it"]


def test_ctrl_c_leaves_no_process_and_no_port(local: RunningLocal) -> None:
    children = psutil.Process(local.process.pid).children(recursive=True)
    assert len(children) >= 3, "engine, its worker and the sidecar"
    local.process.send_signal(signal.SIGINT)
    assert local.process.wait(60) == 130
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not any(answers(f"http://127.0.0.1:{port}/healthz") for port in local.ports.values())
