"""An engine over two nodes, as the operator asks for it: real vLLM in both of its pods' containers, on one machine."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from justitia_cli.runtime import ensure_engine
from justitia_cli.tiny_model import make_tiny_model
from justitia_operator.build.arguments import LEADER_VARIABLE, RANK_VARIABLE
from justitia_operator.world.objects import Kind
from support.plugged_engine import TestPeer
from support.resources import child, pool, put, settled, small_world
from support.serving import MODEL, ROOT, answers, eventually, http, stop

ARGUMENTS = ["--dtype=float32", "--enforce-eager", "--load-format=dummy", "--max-model-len=256"]
ENGINE = {"nodes": 2, "args": [*ARGUMENTS, "--num-gpu-blocks-override=64", "--tensor-parallel-size=2"]}
START_SECONDS = 300
URL = "http://127.0.0.1:8001"


@pytest.fixture
def containers(tmp_path: Path) -> dict[str, Any]:
    """Those with vLLM, of a group's leader and worker."""
    model = {"uri": f"file://{make_tiny_model(tmp_path / 'model')}", "name": MODEL}
    asked = pool(model=model, engine=ENGINE, scheduling={"enforcement": "Engine"})
    group = child(settled(put(small_world(), asked)), Kind.LEADER_WORKER_SET)["spec"]["leaderWorkerTemplate"]
    return {part: group[f"{part}Template"]["spec"]["containers"][0] for part in ("leader", "worker")}


@contextmanager
def running(container: Any, rank: str, folder: Path, **settings: str) -> Iterator["subprocess.Popen[bytes]"]:
    """What a kubelet would start, with the variables that a LeaderWorkerSet gives its pods."""
    runtime = ensure_engine(print, "cpu")
    given = {LEADER_VARIABLE: "127.0.0.1", RANK_VARIABLE: rank}
    arguments = [re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], each) for each in container["args"]]
    wings = (ROOT / wing for wing in ("engine", "scheduling", "channel", "vocabulary"))
    paths = os.pathsep.join(map(str, (named_vllm(folder / "names"), *wings)))
    ours = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": paths, "VLLM_HOST_IP": "127.0.0.1"}
    ours["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"  # as in a pod
    environment = os.environ | dict(runtime.environment) | ours | settings
    with (folder / f"{container['name']}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(runtime.python), *arguments], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        stop(process)


def named_vllm(folder: Path) -> Path:
    """What vLLM's command line looks itself up by: the package that we install for CPUs has another name."""
    metadata = folder / "vllm-0.32.0+cpu.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True, exist_ok=True)
    metadata.write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    return folder


def test_leader_and_worker_are_one_engine_with_our_scheduler(containers: dict[str, Any], tmp_path: Path) -> None:
    socket = tmp_path / "socket"
    peer = TestPeer(socket)
    with ExitStack() as both:
        leader = both.enter_context(running(containers["leader"], "0", tmp_path, JUSTITIA_SOCKET=str(socket)))
        worker = both.enter_context(running(containers["worker"], "1", tmp_path))
        parts = {"engine": leader, "worker": worker}

        def ended() -> list[str]:
            return [name for name, process in parts.items() if process.poll() is not None]

        eventually("the engine answers", lambda: ended() or answers(f"{URL}/health"), START_SECONDS)
        assert not ended(), (tmp_path / f"{ended()[0]}.log").read_text()[-3000:]
        assert peer.connected
        body = {"model": MODEL, "prompt": [7, 8, 9], "max_tokens": 8, "ignore_eos": True}
        answer = http.post(f"{URL}/v1/completions", json=body).raise_for_status().json()
        assert answer["usage"]["completion_tokens"] == 8
