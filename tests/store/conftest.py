"""A real S3 service on this machine: versitygw, which keeps a bucket in a folder."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.build import S3_SERVICE, ensure_program
from justitia_cli.local.ports import free_ports
from justitia_predictor.store import Store, StoreError

KEY, SECRET = "AKIAJUSTITIATESTS", "a secret that nothing ever tells"
START_SECONDS = 30.0


@dataclass(frozen=True)
class Service:
    """`bucket` is the folder that holds the objects."""

    endpoint: str
    bucket: Path

    def environment(self) -> dict[str, str]:
        return environment(self.endpoint)


def environment(endpoint: str, key: str = KEY, secret: str = SECRET) -> dict[str, str]:
    """What a client of the service is told."""
    return {
        "AWS_ENDPOINT": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
    }


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    program = ensure_program(S3_SERVICE, print)
    folder = tmp_path_factory.mktemp("s3")
    for name in ("buckets/justitia", "metadata"):
        (folder / name).mkdir(parents=True)
    (port,) = free_ports(1)
    service = Service(f"http://127.0.0.1:{port}", folder / "buckets/justitia")
    command = [str(program), "--quiet", "--port", f"127.0.0.1:{port}"]
    command += ["posix", "--sidecar", str(folder / "metadata"), str(folder / "buckets")]
    keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    with (folder / "log").open("w") as log, subprocess.Popen(command, env=keys, stdout=log, stderr=log) as process:
        try:
            with pytest.MonkeyPatch.context() as patched:
                _await(service, process, patched)
            yield service
        finally:
            process.kill()


def _await(service: Service, process: "subprocess.Popen[bytes]", patched: pytest.MonkeyPatch) -> None:
    for name, value in service.environment().items():
        patched.setenv(name, value)
    store = Store("s3://justitia")
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with suppress(StoreError):
            store.tidy_samples("nobody", 1, 0)
            return
    pytest.fail(f"the S3 service does not answer; exit code {process.poll()}")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, service: Service) -> Service:
    """The service, of which the environment tells."""
    for name, value in service.environment().items():
        monkeypatch.setenv(name, value)
    return service


@pytest.fixture
def store(told: Service, request: pytest.FixtureRequest) -> Store:
    """A part of the bucket that is this test's own."""
    return Store(f"s3://justitia/{request.node.name.partition('[')[0]}")
