"""A real vLLM that is told to end while it starts, as the first process of a container: in a PID namespace of its own,
by the command that the operator gives the engine's container.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from justitia_api.pool import ServingPool
from justitia_api.wire import ENGINE_PORT
from justitia_cli.local.ports import free_ports
from justitia_cli.runtime import ensure_engine
from justitia_cli.tiny_model import make_tiny_model
from justitia_operator.build.pods import build_engine_container
from support.resources import pool
from support.serving import answers, eventually

SECONDS = 10.0
"""Within which it has to be gone. The pod's grace is over ten minutes."""
BEGUN = "Starting to load model", "non-default args"
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc"]


def may_unshare() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run([*NAMESPACE, "true"], check=False).returncode


pytestmark = pytest.mark.skipif(not may_unshare(), reason="no right to make a PID namespace")


@contextmanager
def contained(folder: Path, command: Sequence[str], environment: dict[str, str]) -> Iterator[tuple[int, Path]]:
    """The process that is the first of its namespace, by its number outside, and its log."""
    log = folder / "log"
    with log.open("wb") as output:
        outer = subprocess.Popen([*NAMESPACE, "--kill-child", *command], env=environment, stdout=output, stderr=output)
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    try:
        yield int(eventually("it runs", lambda: children.read_text().split(), 30)[0]), log
    finally:
        outer.kill()
        outer.wait(30)


def command_of(folder: Path, port: int) -> tuple[list[str], dict[str, str]]:
    """As the pod has it, with another model, port and interpreter."""
    runtime, model = ensure_engine(print, "cpu"), make_tiny_model(folder / "model")
    args = ["--load-format=dummy", "--dtype=float32", "--enforce-eager", "--max-model-len=256"]
    in_front = {"enforcement": "Sidecar"}  # the scheduler is not brought here
    container = build_engine_container(ServingPool.model_validate(pool(engine={"args": args}, scheduling=in_front)))
    found = [*container["command"], *container["args"]]
    found = [str(runtime.python), *(part.replace(str(ENGINE_PORT), str(port)) for part in found[1:])]
    found = [f"--model={model}" if part.startswith("--model=") else part for part in found]
    return found, os.environ | dict(runtime.environment) | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
    }


def is_gone(process: int) -> bool:
    return not Path(f"/proc/{process}").exists()


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def test_an_engine_that_is_told_to_end_while_it_starts_is_gone_within_seconds(tmp_path: Path, port: int) -> None:
    command, environment = command_of(tmp_path, port)
    with contained(tmp_path, command, environment) as (process, log):
        eventually("vLLM starts", lambda: any(line in log.read_text() for line in BEGUN), 300)
        begun = time.monotonic()
        os.kill(process, signal.SIGTERM)
        eventually("it is gone", lambda: is_gone(process), SECONDS)
        assert time.monotonic() - begun < SECONDS
        assert not answers(f"http://127.0.0.1:{port}/health")


def test_without_a_supervisor_it_would_start_as_if_nothing_had_been_said(tmp_path: Path, port: int) -> None:
    """The negative control: why the pod's command is as it is."""
    command, environment = command_of(tmp_path, port)
    plain = [command[0], *command[command.index("-m") :]]
    with contained(tmp_path, plain, environment) as (process, log):
        eventually("vLLM begins", lambda: log.stat().st_size > 0, 300)
        os.kill(process, signal.SIGTERM)
        eventually("it serves", lambda: is_gone(process) or answers(f"http://127.0.0.1:{port}/health"), 300)
        assert not is_gone(process)
