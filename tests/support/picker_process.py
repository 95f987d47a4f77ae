"""A real endpoint picker beside a real sidecar, and gateways that talk to it over gRPC."""

import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import psutil
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest
from envoy.service.ext_proc.v3.external_processor_pb2_grpc import ExternalProcessorStub
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from justitia_api.wire import authority
from justitia_cli.local.ports import free_ports
from justitia_sidecar.picker.certificate import NAME
from support.serving import eventually, stop

EXT_PROC = "envoy.service.ext_proc.v3.ExternalProcessor"


@dataclass
class RunningPicker:
    process: psutil.Process
    port: int

    def certificate(self) -> bytes:
        """What it shows. Raises OSError while it does not listen."""
        return ssl.get_server_certificate(("127.0.0.1", self.port), timeout=10).encode()

    @asynccontextmanager
    async def connected(self, address: str = "127.0.0.1") -> AsyncIterator["Gateway"]:
        """A connection of its own, from that address."""
        options = (
            ("grpc.ssl_target_name_override", NAME),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_send_message_length", -1),
        )
        credentials = grpc.ssl_channel_credentials(self.certificate())
        async with grpc.aio.secure_channel(authority(address, self.port), credentials, options) as channel:
            yield Gateway(channel)


class Gateway:
    def __init__(self, channel: Any) -> None:
        self._streams = ExternalProcessorStub(channel)
        self._health = HealthStub(channel)

    def stream(self) -> Any:
        return self._streams.Process()

    async def healthy(self, service: str = EXT_PROC) -> int:
        return int((await self._health.Check(HealthCheckRequest(service=service), timeout=30)).status)

    async def pick(self, **headers: str) -> Any:
        """What the picker answers to a request's head. Its stream is over then."""
        stream = self.stream()
        await stream.write(head(**headers))
        answer = await stream.read()
        stream.cancel()
        return answer


def head(**headers: str) -> ProcessingRequest:
    """`_` in a name stands for `-`."""
    message = ProcessingRequest()
    lines = {":path": "/v1/completions", ":method": "POST", **headers}
    for name, value in lines.items():
        message.request_headers.headers.headers.add(key=name.replace("_", "-"), raw_value=value.encode("latin-1"))
    return message


@contextmanager
def picking(folder: Path) -> Iterator[RunningPicker]:
    """A picker whose sidecar listens at `picker.sock` in the folder."""
    (port,) = free_ports(1)
    environment = os.environ | {
        "JUSTITIA_PICKER_SOCKET": str(folder / "picker.sock"),
        "JUSTITIA_PICKER_HOST": "::",
        "JUSTITIA_PICKER_PORT": str(port),
        "GRPC_VERBOSITY": "NONE",
    }
    with (folder / "picker-log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "justitia_sidecar.picker"], env=environment, stdout=log, stderr=log
        )
    running = RunningPicker(psutil.Process(process.pid), port)
    try:
        eventually("the picker is up", lambda: _listens(running))
        yield running
    finally:
        stop(process)


def _listens(running: RunningPicker) -> bool:
    try:
        return bool(running.certificate())
    except OSError:
        return False
