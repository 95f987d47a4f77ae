"""One real vLLM on CPU for the session, and real sidecar processes in front of it."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from justitia_cli.runtime import ensure_engine
from justitia_cli.tiny_model import make_tiny_model
from support.serving import (
    BLOCK,
    BLOCKS,
    MAX_LENGTH,
    MODEL,
    RunningSidecar,
    Vllm,
    answers,
    at_rest,
    eventually,
    free_port,
    running_sidecar,
    stop,
)


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    directory = tmp_path_factory.mktemp("vllm")
    model = make_tiny_model(directory / "model")
    runtime = ensure_engine(print, "cpu")
    port = free_port()
    arguments = {
        "--model": str(model),
        "--served-model-name": MODEL,
        "--host": "127.0.0.1",
        "--port": str(port),
        "--load-format": "dummy",
        "--dtype": "float32",
        "--max-model-len": str(MAX_LENGTH),
        "--block-size": str(BLOCK),
        "--num-gpu-blocks-override": str(BLOCKS),
        "--scheduling-policy": "priority",
    }
    command = [str(runtime.python), "-m", "vllm.entrypoints.openai.api_server"]
    command += [part for pair in arguments.items() for part in pair]
    command += ["--enforce-eager", "--enable-force-include-usage", "--enable-prompt-tokens-details"]
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=os.environ | dict(runtime.environment) | {"HF_HUB_OFFLINE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        eventually("vLLM answers", lambda: process.poll() is not None or answers(f"{url}/health"), 300)
        assert process.poll() is None, log.read_text()[-1500:]
        yield Vllm(url)
    finally:
        stop(process)


@pytest.fixture(scope="session")
def shared_sidecar(vllm: Vllm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSidecar]:
    with running_sidecar(tmp_path_factory.mktemp("sidecar"), vllm.url) as sidecar:
        yield sidecar


@pytest.fixture
def sidecar(shared_sidecar: RunningSidecar) -> RunningSidecar:
    """The session's sidecar with its first configuration, at rest."""
    shared_sidecar.reconfigure()
    eventually("nothing is open", lambda: at_rest(shared_sidecar))
    return shared_sidecar
