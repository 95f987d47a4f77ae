"""What the picker answers a gateway, message by message: the endpoint picker protocol (v1.0.0) of the Gateway API
Inference Extension, over Envoy's external processing service.

Bytes of bodies go back as they came. A gateway that lets us say so (`mode_override`) keeps them, and asks no more once
it has the endpoint. Bodies in full duplex come back in pieces that every gateway takes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from envoy.config.core.v3 import base_pb2
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2 as ext_proc

from justitia_api.wire import PICKED_HEADER
from justitia_sidecar.identity.recognition import DECIDING_HEADERS
from justitia_sidecar.pool.asks import Refuse

ENDPOINT = "x-gateway-destination-endpoint"
NAMESPACE = "envoy.lb"
SUBSET, SUBSET_NAMESPACE = "x-gateway-destination-endpoint-subset", "envoy.lb.subset_hint"
LONGEST_PIECE = 62_000
"""Bytes of a body in one message. Some gateways take at most 64 KiB."""
LONGEST_VALUE = 4096
"""Bytes of a header that decides anything. A longer one is no key, and names nothing."""

Request: TypeAlias = ext_proc.ProcessingRequest
Response: TypeAlias = ext_proc.ProcessingResponse


@dataclass(frozen=True, slots=True)
class Head:
    """What a request's head says. `allowed`: only one of these endpoints; None: any."""

    path: str = ""
    size: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    allowed: list[str] | None = None


def read_head(message: Request) -> Head:
    path, size, headers = "", 0, {}
    for header in message.request_headers.headers.headers:
        value = header.raw_value or header.value.encode()
        if len(value) > LONGEST_VALUE:
            continue
        if header.key == ":path":
            path = value.decode("latin-1").partition("?")[0]
        elif header.key == "content-length" and value.isdigit():
            size = min(int(value), 2**62)
        elif header.key in DECIDING_HEADERS:
            headers[header.key] = value.decode("latin-1")
    return Head(path, size, headers, _subset(message))


def _subset(message: Request) -> list[str] | None:
    hint = message.metadata_context.filter_metadata.get(SUBSET_NAMESPACE)
    if hint is None or SUBSET not in hint.fields:
        return None
    value = hint.fields[SUBSET]
    listed = [each.string_value for each in value.list_value.values] or [value.string_value]
    return [endpoint for each in listed for part in each.split(",") if (endpoint := part.strip())]


def full_duplex(message: Request) -> tuple[bool, bool]:
    """Whether the bodies of request and answer come and go in full duplex. A gateway that does not say so does it."""
    if not message.HasField("protocol_config"):
        return True, True
    modes = message.protocol_config
    duplex = ProcessingMode.FULL_DUPLEX_STREAMED
    return modes.request_body_mode == duplex, modes.response_body_mode == duplex


def picked(endpoint: str, size: int = 0) -> Response:
    """The request goes to that endpoint, and nowhere else that a client may have written into its headers. The sidecar
    there hears that it was picked, and the `size` of the body.
    """
    response = Response()
    common = response.request_headers.response
    common.clear_route_cache = True
    for name, value in ((ENDPOINT, endpoint), (PICKED_HEADER, str(size))):
        option = common.header_mutation.set_headers.add()
        option.header.key, option.header.raw_value = name, value.encode()
        option.append_action = base_pb2.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    response.dynamic_metadata.get_or_create_struct(NAMESPACE)[ENDPOINT] = endpoint
    override = response.mode_override
    override.response_header_mode = ProcessingMode.SKIP
    override.request_trailer_mode = override.response_trailer_mode = ProcessingMode.SKIP
    return response


def refused(refusal: Refuse) -> Response:
    """The client gets that answer."""
    response = Response()
    immediate = response.immediate_response
    immediate.status.code = refusal.status
    for name, value in refusal.headers:
        option = immediate.headers.set_headers.add()
        option.header.key, option.header.raw_value = name.decode(), value
        option.append_action = base_pb2.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    immediate.body = refusal.body
    return response


def passed(message: Request, duplex: tuple[bool, bool]) -> Iterator[Response]:
    """The answers to what comes after the head: all of it stays as it is."""
    match message.WhichOneof("request"):
        case "request_body":
            for common in _body(message.request_body, duplex[0]):
                yield Response(request_body=ext_proc.BodyResponse(response=common))
        case "response_body":
            for common in _body(message.response_body, duplex[1]):
                yield Response(response_body=ext_proc.BodyResponse(response=common))
        case "response_headers":
            yield Response(response_headers=ext_proc.HeadersResponse())
        case "request_trailers":
            yield Response(request_trailers=ext_proc.TrailersResponse())
        case "response_trailers":
            yield Response(response_trailers=ext_proc.TrailersResponse())


def ends_request(message: Request) -> bool:
    """Whether nothing more of the request comes here."""
    return bool(message.request_body.end_of_stream or message.HasField("request_trailers"))


def _body(body: ext_proc.HttpBody, duplex: bool) -> Iterator[ext_proc.CommonResponse]:
    if not duplex:
        yield ext_proc.CommonResponse()
        return
    data = body.body
    for at in range(0, max(1, len(data)), LONGEST_PIECE):
        last = at + LONGEST_PIECE >= len(data)
        piece = ext_proc.StreamedBodyResponse(
            body=data[at : at + LONGEST_PIECE], end_of_stream=last and body.end_of_stream
        )
        yield ext_proc.CommonResponse(body_mutation=ext_proc.BodyMutation(streamed_response=piece))
