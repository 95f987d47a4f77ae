"""A sidecar that is asked to end does so, whatever the store does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from justitia_api.config import KeyTable
from justitia_sidecar.__main__ import CLOSE_SECONDS
from justitia_sidecar.learning.finished import FinishedRun
from justitia_sidecar.learning.samples import Samples
from support.learning_room import NAME, WRITTEN, learning_pool
from support.sidecar_client import PEPPER
from support.silent_server import silent_server

VERSION = "0" * 64
START_SECONDS = 60.0
DEAD_VOLUME = """
import threading
from justitia_predictor.store import Store
def artifact(*arguments):
    print("reading", flush=True)
    threading.Event().wait()
Store.artifact = artifact
"""
"""Whoever reads from it never comes back."""


@contextmanager
def sidecar(
    folder: Path, store: str, environment: Mapping[str, str], *, close_seconds: float, before: str = ""
) -> "Iterator[subprocess.Popen[str]]":
    """Run a sidecar and ask it to end, which it must within twice the time that it has for its samples."""
    (folder / "config").write_text(learning_pool(version=VERSION).model_dump_json(by_alias=True))
    (folder / "keys").write_text(KeyTable(pepper=PEPPER, keys=()).model_dump_json(by_alias=True))
    settings = {
        "CONFIG_FILE": folder / "config",
        "KEYS_FILE": folder / "keys",
        "SAMPLES_FILE": folder / "samples.db",
        "STORE_URL": store,
        "HOST": "127.0.0.1",
        "PORT": 0,
        "ADMIN_HOST": "127.0.0.1",
        "ADMIN_PORT": 0,
    }
    told = {f"JUSTITIA_{name}": str(value) for name, value in settings.items()}
    code = f"{before}\nimport justitia_sidecar.__main__ as m; m.CLOSE_SECONDS = {close_seconds}; m.main()"
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **environment, **told}, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(2 * close_seconds) == 0
        finally:
            process.kill()


def test_a_silent_service_holds_up_nothing(tmp_path: Path) -> None:
    with closing(Samples(tmp_path / "samples.db")) as samples:
        samples.add([FinishedRun(NAME, time.time(), False, 1.0, (1.0,), WRITTEN[0].features.packed, None)])
    with silent_server() as server:
        environment = {
            "AWS_ENDPOINT": server.address,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        with sidecar(tmp_path, "s3://bucket", environment, close_seconds=CLOSE_SECONDS):
            assert server.taken.wait(START_SECONDS)
            told_to_end = time.monotonic()
        assert time.monotonic() - told_to_end < CLOSE_SECONDS


def test_a_dead_volume_holds_up_nothing(tmp_path: Path) -> None:
    with sidecar(tmp_path, f"file://{tmp_path}/store", {}, close_seconds=2.0, before=DEAD_VOLUME) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
