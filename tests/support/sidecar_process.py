"""A real sidecar process on loopback, without an engine."""

import os
import resource
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import psutil

from justitia_api.config import KeyEntry, KeyTable, key_digest
from justitia_cli.local.ports import free_ports
from support.serving import eventually, stop
from support.sidecar_client import KEY, PEPPER, pool

FILES = 1024
ONE_KEY = {KEY: "gold"}


@dataclass
class Running:
    process: psutil.Process
    port: int
    admin: int

    def status(self, port: int, path: str, key: bytes | None = None, body: bytes | None = None) -> int:
        headers = {} if key is None else {"authorization": f"Bearer {key.decode()}"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code


@contextmanager
def serving(
    folder: Path, keys: Mapping[bytes, str] = ONE_KEY, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Running]:
    """`environment` are further settings."""
    (folder / "pool.json").write_text(pool().model_dump_json(by_alias=True))
    entries = tuple(KeyEntry(digest=key_digest(PEPPER, key), tenant=tenant) for key, tenant in keys.items())
    (folder / "keys.json").write_text(KeyTable(pepper=PEPPER, keys=entries).model_dump_json(by_alias=True))
    port, admin = free_ports(2)
    settings = os.environ | {
        "JUSTITIA_CONFIG_FILE": str(folder / "pool.json"),
        "JUSTITIA_KEYS_FILE": str(folder / "keys.json"),
        "JUSTITIA_ENGINE_URL": "http://127.0.0.1:1",
        "JUSTITIA_PORT": str(port),
        "JUSTITIA_ADMIN_PORT": str(admin),
        **environment,
    }
    command = [sys.executable, "-m", "justitia_sidecar"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, env=settings, stdout=log, stderr=log)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    running = Running(psutil.Process(process.pid), port, admin)
    try:
        eventually("the sidecar is up", lambda: _answers(running))
        yield running
    finally:
        stop(process)


def _answers(running: Running) -> bool:
    try:
        return running.status(running.admin, "/healthz") == 200
    except OSError:
        return False
