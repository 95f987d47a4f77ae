"""Objectives inside a tenant's share, on a real vLLM with our scheduler inside and a real sidecar in front of it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2 as httpx
import pytest

from justitia_cli.tiny_model import make_tiny_model
from support.serving import KEYS, MODEL, RunningSidecar, Vllm, eventually, http, running_sidecar, running_vllm

LARGE = [7] * 600
"""A prompt of which two do not fit beside each other in 1,024 tokens."""
OBJECTIVE = {"metric": "TimeToFirstToken", "percentile": 90, "boundMilliseconds": 60_000}
HEADER = "x-justitia-beyond-objective"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningSidecar, Vllm]]:
    directory = tmp_path_factory.mktemp("pool")
    socket = directory / "engine.sock"
    engine = running_vllm(
        directory,
        make_tiny_model(directory / "model"),
        max_length=1024,
        block_size=32,
        blocks=33,
        arguments=["--no-enable-prefix-caching"],
        environment={"JUSTITIA_SOCKET": str(socket)},
        scheduler="support.braked_scheduler.JustitiaScheduler",
    )
    with engine as vllm, running_sidecar(directory / "sidecar", vllm.url, engine_socket=socket) as sidecar:
        eventually("the plug-in has connected", lambda: "plug-in has connected" in sidecar.log.read_text())
        yield sidecar, vllm


def configure(sidecar: RunningSidecar, bound: int, action: str) -> None:
    """The objective of gold's application, and what becomes of requests beyond it."""
    chat = {"namespace": "demo", "name": "chat", "tenant": "gold", "beyondObjective": action}
    chats = chat | {"objectives": [OBJECTIVE | {"boundMilliseconds": bound}]}
    sidecar.reconfigure(
        scheduling={"policy": "TieredJustitia", "costModel": "EngineTime", "enforcement": "Engine"},
        applications=[chats, {"namespace": "demo", "name": "summarise", "tenant": "silver"}],
    )
    eventually("the engine orders by it", lambda: sidecar.status()["plugIn"]["generation"] == sidecar.generation)


def ask(sidecar: RunningSidecar, prompt: list[int], output: int) -> httpx.Response:
    body: dict[str, Any] = {"model": MODEL, "prompt": prompt, "max_tokens": output, "ignore_eos": True, "stream": True}
    headers = {"authorization": f"Bearer {KEYS['gold']}"}
    return http.post(f"{sidecar.public}/v1/completions", json=body, headers=headers)


def test_the_engine_reports_the_gamma_of_boosted_requests(pool: tuple[RunningSidecar, Vllm]) -> None:
    sidecar, _ = pool
    configure(sidecar, 60_000, "Say")
    assert ask(sidecar, [5, 6], 20).status_code == 200
    boost = eventually("gamma is reported", lambda: sidecar.status()["boost"])
    assert (boost["mode"], boost["floor"], boost["ceiling"]) == ("SLO", 0.001, 10.0)
    assert 0.001 <= boost["gamma"] <= 10.0


@pytest.mark.parametrize("action", ["Say", "Defer", "Refuse"])
def test_what_cannot_be_in_time_is_said_deferred_or_refused(pool: tuple[RunningSidecar, Vllm], action: str) -> None:
    sidecar, vllm = pool
    configure(sidecar, 60_000, action)
    assert HEADER not in ask(sidecar, [5, 6], 300).headers
    eventually("how long steps take is known", lambda: sidecar.status()["boost"])
    with ThreadPoolExecutor(3) as others:
        with vllm.braked():
            asked = [others.submit(ask, sidecar, LARGE, 300) for _ in range(2)]
            eventually("one runs, the other waits", lambda: len(sidecar.queue()) == 1)
            configure(sidecar, 1, action)
            last = others.submit(ask, sidecar, LARGE, 5)
            if action == "Refuse":
                refused = last.result(60)
                assert (refused.status_code, refused.json()["error"]["code"]) == (503, "beyond_objective")
                assert int(refused.headers["retry-after"]) >= 1
            else:
                eventually("the last one waits, too", lambda: len(sidecar.queue()) == 2)
        assert [each.result().status_code for each in asked] == [200, 200]
        if action != "Refuse":
            said = last.result().headers[HEADER]
            assert said.startswith("TimeToFirstToken; expected=")
            assert said.endswith("; deferred" if action == "Defer" else "; bound=0.001")
