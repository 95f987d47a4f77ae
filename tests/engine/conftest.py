"""One real vLLM on CPU for the session, and real sidecar processes in front of it."""

from collections.abc import Iterator

import pytest

from justitia_cli.tiny_model import make_tiny_model
from support.serving import (
    BLOCK,
    BLOCKS,
    MAX_LENGTH,
    RunningSidecar,
    Vllm,
    at_rest,
    eventually,
    running_sidecar,
    running_vllm,
)


@pytest.fixture(scope="package", autouse=True)
def one_process() -> Iterator[None]:
    """To start processes of its own takes vLLM most of the time that these tests take. Those that need them say so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        yield


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    directory = tmp_path_factory.mktemp("vllm")
    model = make_tiny_model(directory / "model")
    with running_vllm(directory, model, max_length=MAX_LENGTH, block_size=BLOCK, blocks=BLOCKS) as vllm:
        yield vllm


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
