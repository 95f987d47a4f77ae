"""A real engine and real sidecar processes, as tests see them."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx2 as httpx
import openai
import pytest

from justitia_api.config import key_digest
from justitia_cli.local.ports import free_ports
from justitia_cli.runtime import ensure_engine

MODEL = "tiny"
BLOCK = 32
BLOCKS = 129  # one of them is vLLM's null block
KV_TOKENS = BLOCK * BLOCKS
MAX_LENGTH = 4096
PEPPER = "5e" * 32
KEYS = {"gold": "sk-gold-0123456789abcdef", "silver": "sk-silver-0123456789abcdef"}
IMPORTED = ("engine", "channel", "scheduling", "vocabulary", "tests")
"""Folders whose packages the engine imports."""
ROOT = Path(__file__).resolve().parents[2]
STEP = 0.04
"""Seconds that a step of a braked engine takes at least: 400 tokens take 16 s on any machine."""

# One client for all: making one takes longer than the tiny model takes for a short answer.
http = httpx.Client(timeout=120)


def eventually(what: str, condition: Callable[[], Any], within: float = 120.0) -> Any:
    """The first truthy result of `condition`. A machine may be busy: the time is for what never comes."""
    deadline = time.monotonic() + within
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within:g} s: {what}")
        time.sleep(0.02)


def answers(url: str) -> bool:
    try:
        return http.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@dataclass
class Vllm:
    """`brake` is the file that slows the engine down while it exists (`support.braked_scheduler`)."""

    url: str
    brake: Path

    def metric(self, *names: str) -> float:
        """The sum of these, as of one moment."""
        text = http.get(f"{self.url}/metrics").text
        lines = [line for line in text.splitlines() if re.split("[{ ]", line, maxsplit=1)[0] in names]
        assert lines, f"the engine has no metric {' or '.join(names)}"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    @contextmanager
    def braked(self, step: float = STEP, least: int = 0) -> Iterator[Callable[[], None]]:
        """Until the block ends or calls what it is given, each step takes at least so many seconds: what runs does not
        end before something else has happened. There is no step while fewer requests than `least` are open: clients
        that are to keep the engine busy need not be fast.
        """
        before = self.brake.read_text() if self.brake.exists() else None

        def release() -> None:
            if before is None:
                self.brake.unlink(missing_ok=True)
            else:
                self._hold(before)

        self._hold(f"{step} {least}")
        try:
            yield release
        finally:
            release()

    def _hold(self, brake: str) -> None:
        """Written at once: the engine reads the file at each step."""
        new = self.brake.with_suffix(".new")
        new.write_text(brake)
        new.replace(self.brake)


@contextmanager
def running_vllm(
    directory: Path,
    model: Path,
    *,
    max_length: int,
    block_size: int,
    blocks: int,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    port: int | None = None,
    scheduler: str = "support.braked_scheduler.StockScheduler",
) -> Iterator[Vllm]:
    """vLLM with a model without weights, one process on CPU, and what every test here relies on. The `scheduler` has a
    brake.
    """
    runtime, port, log = ensure_engine(print, "cpu"), port or free_ports(1)[0], directory / "log"
    brake = directory / "brake"
    command = [str(runtime.python), "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(model), "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--load-format", "dummy", "--dtype", "float32", "--enforce-eager", "--scheduling-policy", "priority"]
    command += ["--max-model-len", str(max_length), "--block-size", str(block_size)]
    command += ["--num-gpu-blocks-override", str(blocks)]
    command += ["--enable-force-include-usage", "--enable-prompt-tokens-details", "--scheduler-cls", scheduler]
    command += arguments
    settings = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "PYTHONPATH": os.pathsep.join(
            str(ROOT / part) for part in ("engine", "scheduling", "channel", "vocabulary", "tests")
        ),
        "JUSTITIA_TEST_BRAKE": str(brake),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=os.environ | dict(runtime.environment) | settings | dict(environment),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        eventually("vLLM answers", lambda: process.poll() is not None or answers(f"{url}/health"), 300)
        assert process.poll() is None, log.read_text()[-3000:]
        yield Vllm(url, brake)
    finally:
        stop(process)


@dataclass
class RunningSidecar:
    process: "subprocess.Popen[bytes]"
    public: str
    admin: str
    config_file: Path
    config: dict[str, Any]
    log: Path
    generation: int = field(default=1)

    def client(self, tenant: str = "gold", **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.public}/v1", api_key=KEYS[tenant], max_retries=0, timeout=120, **options)

    def status(self) -> dict[str, Any]:
        answer: dict[str, Any] = http.get(f"{self.admin}/internal/status").raise_for_status().json()
        return answer

    def tenant(self, name: str) -> dict[str, Any]:
        return next(t for t in self.status()["tenants"] if t["name"] == name)

    def queue(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = http.get(f"{self.admin}/internal/queue").raise_for_status().json()["requests"]
        return rows

    def metrics(self) -> str:
        return http.get(f"{self.admin}/metrics").text

    def write(self, document: str) -> None:
        """Replace the configuration file atomically."""
        new = self.config_file.with_suffix(".new")
        new.write_text(document)
        new.replace(self.config_file)

    def reconfigure(self, **changes: Any) -> None:
        """Put a changed configuration into effect, and wait until it is."""
        self.generation += 1
        self.write(json.dumps({**self.config, **changes, "generation": self.generation}))
        eventually("the configuration is in effect", lambda: self.status()["generation"] == self.generation)


def pool_config() -> dict[str, Any]:
    return {
        "generation": 1,
        "namespace": "demo",
        "name": "pool",
        "model": MODEL,
        "scheduling": {"policy": "FCFS", "costModel": "WeightedTokens"},
        "queue": {"maximumRequests": 100, "timeoutSeconds": 120, "maximumBodyBytes": 65536},
        "tenants": [{"name": "gold", "weight": 4}, {"name": "silver", "weight": 1}],
        "applications": [
            {"namespace": "demo", "name": "chat", "tenant": "gold"},
            {"namespace": "demo", "name": "summarise", "tenant": "silver"},
        ],
    }


@contextmanager
def running_sidecar(
    directory: Path,
    engine_url: str,
    *,
    wait: bool = True,
    engine_socket: Path | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[RunningSidecar]:
    """`engine_socket`: the plug-in keeps the order, and connects there. `settings` without their prefix."""
    directory.mkdir(parents=True, exist_ok=True)
    config, keys, log = directory / "config.json", directory / "keys.json", directory / "log"
    document = pool_config()
    config.write_text(json.dumps(document))
    entries = [{"digest": key_digest(PEPPER, key.encode()), "tenant": tenant} for tenant, key in KEYS.items()]
    keys.write_text(json.dumps({"pepper": PEPPER, "keys": entries}))
    port, admin = free_ports(2)
    given = {
        "CONFIG_FILE": str(config),
        "KEYS_FILE": str(keys),
        "ENGINE_URL": engine_url,
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "ADMIN_HOST": "127.0.0.1",
        "ADMIN_PORT": str(admin),
        **settings,
    }
    if engine_socket is not None:
        given["ENGINE_SOCKET"] = str(engine_socket)
        document["scheduling"]["enforcement"] = "Engine"
        config.write_text(json.dumps(document))
    environment = os.environ | {f"JUSTITIA_{name}": value for name, value in given.items()}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "justitia_sidecar"], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    sidecar = RunningSidecar(process, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin}", config, document, log)
    try:
        probe = "readyz" if wait else "healthz"
        eventually("the sidecar is up", lambda: process.poll() is not None or answers(f"{sidecar.admin}/{probe}"), 60)
        assert process.poll() is None, log.read_text()
        yield sidecar
    finally:
        stop(process)


def at_rest(sidecar: RunningSidecar) -> bool:
    return all(not t["queued"] and not t["running"] for t in sidecar.status()["tenants"])
