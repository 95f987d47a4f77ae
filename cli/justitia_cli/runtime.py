"""The engine's own Python environment: vLLM at a locked version, made once per user and reused.

vLLM's dependencies are large and conflict with ours, so it has a virtual environment of its own in the user's cache.
The environment's name has a digest of its lock file, so another lock makes another environment. An environment with its
completion marker never changes; one without the marker was left by an interrupted install, and is made again. A file
lock lets one installer work at a time.
"""

import ctypes.util
import fcntl
import hashlib
import os
import platform
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import IO, Literal

import uv

Progress = Callable[[str], None]
Device = Literal["cpu", "cuda"]

HEARTBEAT_SECONDS = 5.0
_COMPLETE = ".complete"
_PER_PACKAGE = ("+ ", "Downloading ", "Downloaded ")


class EngineSetupError(Exception):
    """The engine's environment cannot be made here. The message says in one line what is wrong, and what to do."""


@dataclass(frozen=True)
class EngineRuntime:
    """What starts vLLM: `python -m vllm.entrypoints.openai.api_server`, with `environment` added to the caller's."""

    python: Path
    device: Device
    environment: Mapping[str, str] = field(default_factory=dict)


def ensure_engine(progress: Progress, device: Device | None = None) -> EngineRuntime:
    """The engine's environment for this machine. It is made if it is not there. Raises EngineSetupError.

    Unless `device` is given, it is CUDA if `nvidia-smi` lists a GPU, else CPU.
    """
    device = device or detect_device()
    lock = read_lock(device)
    cache = cache_directory()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        environment = _ensure_environment(cache, device, lock, progress)
        settings = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        if device == "cpu":
            settings |= {"VLLM_CPU_KVCACHE_SPACE": "1"} | _numa_settings(cache, progress)
    except OSError as error:
        raise EngineSetupError(f"cannot write the engine's environment under {cache}: {error}") from error
    return EngineRuntime(python=environment / "bin" / "python", device=device, environment=settings)


def cache_directory() -> Path:
    """The folder for all that is made once per user (XDG base directories)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "justitia"


def detect_device() -> Device:
    """CUDA if the driver's own tool lists a GPU, else CPU."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "cpu"
    listing = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False)
    return "cuda" if listing.returncode == 0 and "GPU " in listing.stdout else "cpu"


def environment_name(device: Device, lock: bytes) -> str:
    """The name of the folder. It changes with the lock, and with the Python that the environment is made for."""
    python = f"{platform.python_implementation()}-{platform.python_version()}"
    return f"engine-{device}-{hashlib.sha256(lock + python.encode()).hexdigest()[:16]}"


def read_lock(device: Device) -> bytes:
    return (resources.files("justitia_cli") / "locks" / f"engine-{device}.txt").read_bytes()


def _ensure_environment(cache: Path, device: Device, lock: bytes, progress: Progress) -> Path:
    environment = cache / environment_name(device, lock)
    if (environment / _COMPLETE).exists():
        return environment
    with exclusive(environment.with_suffix(".lock"), progress):
        if (environment / _COMPLETE).exists():
            return environment
        shutil.rmtree(environment, ignore_errors=True)
        try:
            _install(environment, device, lock, progress)
        except BaseException:
            shutil.rmtree(environment, ignore_errors=True)
            raise
        (environment / _COMPLETE).touch()
    return environment


def _install(environment: Path, device: Device, lock: bytes, progress: Progress) -> None:
    progress(f"installing vLLM for {device.upper()} once, into {environment} (about 6 GB)")
    tool = uv.find_uv_bin()
    python = environment / "bin" / "python"
    run_reported([tool, "venv", "--quiet", "--no-project", "--python", sys.executable, str(environment)], progress)
    requirements = environment / "requirements.txt"
    requirements.write_bytes(lock)
    # `sync` installs exactly the lock, whatever the packages themselves require.
    # Bytecode halves every start of the engine, also where Python is told to write none.
    sync = [tool, "pip", "sync", "--no-config", "--require-hashes", "--compile-bytecode", "--python", str(python)]
    run_reported([*sync, str(requirements)], progress)
    progress("checking that vLLM's package can be found and torch loads")
    run_reported([str(python), "-c", "import importlib.util as u, torch; assert u.find_spec('vllm')"], progress)


def _numa_settings(cache: Path, progress: Progress) -> dict[str, str]:
    """vLLM's CPU worker loads libnuma.so.1. If the machine lacks it, Debian's package is unpacked into the cache."""
    if ctypes.util.find_library("numa"):
        return {}
    root = cache / "libnuma1"
    with exclusive(root.with_suffix(".lock"), progress):
        folder = _libnuma_folder(root)
        if folder is None:
            progress("libnuma is not installed; unpacking Debian's package into the cache")
            _unpack_libnuma(root, progress)
            folder = _libnuma_folder(root)
    if folder is None:
        raise EngineSetupError(f"Debian's package libnuma1 has no libnuma.so.1 under {root}: install libnuma yourself")
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{folder}:{inherited}" if inherited else str(folder)}


def _libnuma_folder(root: Path) -> Path | None:
    return next((library.parent for library in root.glob("usr/lib/*/libnuma.so.1")), None)


def _unpack_libnuma(root: Path, progress: Progress) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise EngineSetupError("vLLM for CPU needs libnuma.so.1: install your distribution's libnuma package")
    with tempfile.TemporaryDirectory(dir=root.parent) as scratch:
        state = Path(scratch)
        (state / "lists" / "partial").mkdir(parents=True)
        (state / "cache" / "archives" / "partial").mkdir(parents=True)
        apt = ["apt-get", "-qq", "-o", f"Dir::State::lists={state}/lists", "-o", f"Dir::Cache={state}/cache"]
        apt += ["-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1"]
        # The system's lists may be absent or older than its mirror. Lists of our own need no root.
        run_reported([*apt, "update"], progress, cwd=state)
        run_reported([*apt, "download", "libnuma1"], progress, cwd=state)
        package = next(state.glob("libnuma1_*.deb"))
        unpacked = state / "root"
        run_reported(["dpkg", "-x", str(package), str(unpacked)], progress, cwd=state)
        unpacked.replace(root)


@contextmanager
def exclusive(path: Path, progress: Progress) -> Iterator[None]:
    """Hold an advisory lock on `path`. It ends with the process, however that ends."""
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that holds {path.name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def run_reported(command: Sequence[str], progress: Progress, *, cwd: Path | None = None) -> None:
    """Run a command, pass on its lines, and say every few seconds that it still works. Raises EngineSetupError."""
    started = last = time.monotonic()
    said: list[str] = []
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with subprocess.Popen(
        command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
        try:
            while (line := _next_line(lines, last + HEARTBEAT_SECONDS - time.monotonic())) is not None:
                if line:
                    said.append(line)
                if line.startswith(_PER_PACKAGE):
                    continue
                progress(line or f"{Path(command[0]).name} {command[1]}: {time.monotonic() - started:.0f} s so far")
                last = time.monotonic()
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise EngineSetupError(_explain(command, process.returncode, said))


def _pump(stream: IO[str], lines: "queue.SimpleQueue[str | None]") -> None:
    for line in stream:
        if line.strip():
            lines.put(line.strip())
    lines.put(None)


def _next_line(lines: "queue.SimpleQueue[str | None]", patience: float) -> str | None:
    """The next line; "" if none came within `patience` seconds; None at the end."""
    try:
        return lines.get(timeout=max(patience, 0.01))
    except queue.Empty:
        return ""


def _explain(command: Sequence[str], code: int, said: Sequence[str]) -> str:
    if any("No space left on device" in line for line in said):
        return f"no space left on the disk that holds {cache_directory()}: the engine's environment needs about 6 GB"
    what = " ".join([Path(command[0]).name, *command[1:2]])
    return f"{what} ended with {code} while the engine was set up: {' | '.join(said[-3:]) or 'without a message'}"
