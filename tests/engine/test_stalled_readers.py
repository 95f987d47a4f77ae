"""Clients that stop reading, in front of a real vLLM: the engine goes on with others and is not taken to hang."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from justitia_cli.tiny_model import make_tiny_model
from support.serving import KEYS, MODEL, RunningSidecar, Vllm, at_rest, eventually, http, running_sidecar, running_vllm
from support.stalled_reader import stalled_readers

HANG_SECONDS = 10
PROBES = 60
"""That take longer, at one in 0.25 s or in 1 s."""
READERS = 3
BODY = {"model": MODEL, "prompt": [7] * 16, "max_tokens": 500, "ignore_eos": True, "stream": True, "logprobs": 20}
"""An answer of some 800 KiB, which sockets' buffers do not take."""


@contextmanager
def serving(folder: Path, enforcement: str) -> Iterator[tuple[Vllm, RunningSidecar]]:
    """Engine core in a process of its own, as in a pod."""
    environment = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    plug = folder / "engine.sock" if enforcement == "Engine" else None
    if plug is not None:
        environment["JUSTITIA_SOCKET"] = str(plug)
    scheduler = "StockScheduler" if plug is None else "JustitiaScheduler"
    settings = {"HANG_SECONDS": str(HANG_SECONDS), "HANG_FILE": str(folder / "hangs")}
    model = make_tiny_model(folder / "model")
    with (
        running_vllm(
            folder,
            model,
            max_length=2048,
            block_size=32,
            blocks=257,
            environment=environment,
            scheduler=f"support.braked_scheduler.{scheduler}",
        ) as vllm,
        running_sidecar(folder / "sidecar", vllm.url, engine_socket=plug, settings=settings) as sidecar,
    ):
        if plug is not None:
            eventually("the plug-in has connected", lambda: "plug-in has connected" in sidecar.log.read_text())
        yield vllm, sidecar


def ask(sidecar: RunningSidecar) -> int:
    body = {"model": MODEL, "prompt": [5, 6, 7], "max_tokens": 4}
    headers = {"authorization": f"Bearer {KEYS['gold']}"}
    return http.post(f"{sidecar.public}/v1/completions", json=body, headers=headers).status_code


def core_of(vllm: Vllm) -> int:
    """The process that computes."""
    port = int(vllm.url.rsplit(":", 1)[1])
    server = next(each for each in psutil.process_iter() if f"--port {port}" in " ".join(each.cmdline()))
    (core,) = (each for each in server.children(recursive=True) if "EngineCore" in " ".join(each.cmdline()))
    return int(core.pid)


@pytest.mark.parametrize("enforcement", ["Sidecar", "Engine"])
def test_readers_that_stop_hold_nothing_and_an_engine_that_hangs_is_noticed(tmp_path: Path, enforcement: str) -> None:
    with serving(tmp_path, enforcement) as (vllm, sidecar):
        with vllm.braked() as release, stalled_readers(sidecar.public, KEYS["silver"], BODY, READERS):
            eventually("they are there", lambda: vllm.metric("vllm:num_requests_running") == READERS)
            release()
            assert ask(sidecar) == 200
            eventually("the engine has finished", lambda: vllm.metric("vllm:num_requests_running") == 0, 120)
            eventually("all is released", lambda: at_rest(sidecar))
            assert sidecar.status()["kvHeldTokens"] == 0
            for _ in range(PROBES):
                assert ask(sidecar) == 200
                assert vllm.metric("vllm:num_requests_running") <= 1
        assert "engine hangs" not in sidecar.log.read_text()
        assert not (tmp_path / "hangs").exists()

        # It has nothing to do when it stops, so its counts tell of nothing.
        core = core_of(vllm)
        os.kill(core, signal.SIGSTOP)
        try:
            with stalled_readers(sidecar.public, KEYS["silver"], BODY, 1):
                eventually("the hang is noticed", (tmp_path / "hangs").exists, HANG_SECONDS + 20)
                assert vllm.metric("vllm:num_requests_running") == 0
        finally:
            os.kill(core, signal.SIGCONT)
        eventually("it goes on", lambda: not (tmp_path / "hangs").exists())
