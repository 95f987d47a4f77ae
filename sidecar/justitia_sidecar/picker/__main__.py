"""`python -m justitia_sidecar.picker`: the endpoint picker. SIGTERM and SIGINT end it when its requests are over.

It is a process of its own, so that what gateways send, which passes through here in full duplex, takes nothing of the
loop that serves requests.
"""

import asyncio
import signal

import grpc.aio
import uvloop
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from justitia_api.wire import authority
from justitia_sidecar.picker.certificate import credentials
from justitia_sidecar.picker.link import SidecarLink
from justitia_sidecar.picker.settings import PickerSettings
from justitia_sidecar.picker.streams import Streams
from justitia_sidecar.ports.connections import Seats
from justitia_sidecar.settings import read_settings

MOST_STREAMS = 1024
MOST_CONNECTIONS = 1024
LONGEST_MESSAGE = 2**22 + 2**16
"""Bytes. A gateway may send a whole body at once, and the largest that a pool takes by default has 4 MiB."""
_SERVICES = frozenset({"", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"})
"""What can be asked about."""
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", LONGEST_MESSAGE),
    ("grpc.max_concurrent_streams", MOST_STREAMS),
    ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
    # gRPC turns streams away at random where more wait to be heard. Here those who hold most give way.
    ("grpc.server.max_pending_requests", 8 * MOST_STREAMS),
    ("grpc.server.max_pending_requests_hard_limit", 16 * MOST_STREAMS),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 60_000),
    # Behind a Service, a gateway's next connection may lead to another pod of the pool. Streams go on to their end.
    ("grpc.max_connection_age_ms", 60_000),
    # A gateway whose node is gone says nothing of it, and its requests would count for ever.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    # Windows stay as small as they are at first: a stream holds no more than it is read.
    ("grpc.http2.bdp_probe", 0),
)


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """gRPC's health checks. The process is alive if it answers; it is ready while its sidecar answers."""

    def __init__(self, link: SidecarLink) -> None:
        self._link = link
        self.stopping = False

    async def Check(self, request: "health_pb2.HealthCheckRequest", context: object) -> object:
        answer = health_pb2.HealthCheckResponse
        if request.service not in _SERVICES:
            return answer(status=answer.SERVICE_UNKNOWN)
        serving = request.service == "liveness" or (self._link.ready and not self.stopping)
        return answer(status=answer.SERVING if serving else answer.NOT_SERVING)


def main() -> None:
    settings = read_settings(PickerSettings)
    uvloop.run(serve(settings))


async def serve(settings: PickerSettings) -> None:
    """Serve until a signal has come and the requests under way are over."""
    link = SidecarLink(settings.socket)
    health = Health(link)
    server = grpc.aio.server(options=_OPTIONS)
    external_processor_pb2_grpc.add_ExternalProcessorServicer_to_server(Streams(link, Seats(MOST_STREAMS)), server)
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    server.add_secure_port(authority(settings.host, settings.port), credentials())
    await server.start()
    connecting = asyncio.create_task(link.connect_forever())
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await stopping.wait()
    health.stopping = True
    await server.stop(settings.drain_seconds)
    connecting.cancel()


if __name__ == "__main__":
    main()
