"""What vLLM gets where our scheduler is not made for it, with a fake vLLM of another version or layout."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from justitia_engine.supported import version_problem
from justitia_sidecar.engine.channel import EngineChannel, listen

MODULES = {
    "vllm/__init__.py": "__version__ = '{version}'",
    "vllm/logger.py": "import logging\nlogging.basicConfig()\ninit_logger = logging.getLogger",
    "vllm/v1/__init__.py": "",
    "vllm/v1/core/__init__.py": "",
    "vllm/v1/core/sched/__init__.py": "",
    "vllm/v1/core/sched/async_scheduler.py": "class AsyncScheduler: ...",
}
LOADED = (
    "from justitia_engine.scheduler import JustitiaScheduler as s; print(s.__base__.__module__, s.__base__.__name__)"
)
SERVING = "import sys; from justitia_engine.scheduler import JustitiaScheduler as s; s(); sys.stdin.read()"


def environment(folder: Path, version: str) -> dict[str, str]:
    for name, text in MODULES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("{version}", version))
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("99.0", "vLLM 99.0 is none of the versions that the scheduler is made for: 0.32"),
        ("0.32.0", "vllm.v1.core.sched.scheduler:Scheduler.schedule is not there"),
    ],
)
def test_a_vllm_that_differs_serves_with_its_own_scheduler(tmp_path: Path, version: str, why: str) -> None:
    command = [sys.executable, "-c", LOADED]
    env = environment(tmp_path, version)
    loaded = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["vllm.v1.core.sched.async_scheduler", "AsyncScheduler"]
    assert why in loaded.stderr
    assert "set scheduling.enforcement to Sidecar" in loaded.stderr


def test_a_vllm_whose_module_fails_when_it_is_imported_serves_with_its_own_scheduler(tmp_path: Path) -> None:
    env = environment(tmp_path, "0.32.0")
    (tmp_path / "vllm/v1/core/sched/scheduler.py").write_text("raise RuntimeError('no such device')")
    loaded = subprocess.run([sys.executable, "-c", LOADED], env=env, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["vllm.v1.core.sched.async_scheduler", "AsyncScheduler"]
    assert "cannot be imported in vLLM 0.32.0: RuntimeError('no such device')" in loaded.stderr


def test_a_vllm_that_has_no_asynchronous_scheduler_serves_with_the_one_it_has(tmp_path: Path) -> None:
    env = environment(tmp_path, "0.9.0")
    (tmp_path / "vllm/v1/core/sched/async_scheduler.py").unlink()
    (tmp_path / "vllm/v1/core/sched/scheduler.py").write_text("class Scheduler: ...")
    loaded = subprocess.run([sys.executable, "-c", LOADED], env=env, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["vllm.v1.core.sched.scheduler", "Scheduler"]


async def test_it_tells_the_sidecar_why(tmp_path: Path) -> None:
    channel, said = EngineChannel(), asyncio.Event()
    channel.on_hello = said.set
    path = tmp_path / "s"
    serving = asyncio.create_task(channel.serve(listen(path)))
    env = environment(tmp_path, "99.0") | {"JUSTITIA_SOCKET": str(path)}
    pipe = asyncio.subprocess.PIPE
    engine = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVING, env=env, stdin=pipe)
    try:
        async with asyncio.timeout(60):
            await said.wait()
        assert channel.vllm == "99.0"
        assert channel.unsupported == "vLLM 99.0 is none of the versions that the scheduler is made for: 0.32"
    finally:
        await engine.communicate(b"")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("version", ["0.32.0", "0.32.1", "0.32.0+cpu", "0.32.1rc2", "0.32.1.dev7+gabc"])
def test_releases_of_a_version_that_is_supported_are(version: str) -> None:
    assert version_problem(version) is None


@pytest.mark.parametrize("version", ["0.31.9", "0.33.0", "0.3.2", "0.320.0", "1.32.0", "10.32", "dev", "", "v0.32.0"])
def test_others_are_not(version: str) -> None:
    assert version_problem(version) is not None
