"""What an endpoint picker reads of a gateway's messages, and what it answers."""

import pytest
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest

from justitia_sidecar.picker.replies import (
    LONGEST_PIECE,
    LONGEST_VALUE,
    Head,
    ends_request,
    full_duplex,
    passed,
    picked,
    read_head,
    refused,
)
from justitia_sidecar.pool.asks import Refuse

SUBSET = "x-gateway-destination-endpoint-subset"
A, B = "10.0.0.1:8000", "10.0.0.2:8000"
BOTH = (True, True)


def head(*headers: tuple[str, bytes]) -> ProcessingRequest:
    message = ProcessingRequest()
    for name, value in headers:
        message.request_headers.headers.headers.add(key=name, raw_value=value)
    return message


def test_what_decides_is_read_and_nothing_else() -> None:
    message = head(
        (":path", b"/v1/completions?x=1"),
        ("content-length", b"12"),
        ("authorization", b"Bearer k"),
        ("x-justitia-run", b"r"),
        ("cookie", b"secret"),
        ("x-gateway-destination-endpoint", b"10.9.9.9:1"),
    )
    message.request_headers.headers.headers.add(key="traceparent", value="00-1")
    wanted = {"authorization": "Bearer k", "x-justitia-run": "r", "traceparent": "00-1"}
    assert read_head(message) == Head("/v1/completions", 12, wanted, None)


@pytest.mark.parametrize("length", [b"", b"-1", b"1e3", b"\xd9\xa1", b"9" * 5000])
def test_a_length_that_is_none_counts_as_nothing(length: bytes) -> None:
    assert read_head(head(("content-length", length))).size == 0


def test_an_absurd_length_and_huge_headers_cost_nothing() -> None:
    found = read_head(head(("content-length", b"9" * 400), ("authorization", b"k" * (LONGEST_VALUE + 1))))
    assert found.size <= 2**62
    assert found.headers == {}


@pytest.mark.parametrize(
    ("hint", "allowed"),
    [
        pytest.param([A, B], [A, B], id="a list"),
        pytest.param(f"{A}, {B}", [A, B], id="a string with commas"),
        pytest.param([f"{A},{B}"], [A, B], id="a list with commas"),
        pytest.param([], [], id="nothing is allowed"),
        pytest.param("", [], id="an empty string"),
        pytest.param(7, [], id="nonsense"),
    ],
)
def test_the_subset_is_read_in_all_forms_that_gateways_write(hint: object, allowed: list[str]) -> None:
    message = head()
    message.metadata_context.filter_metadata["envoy.lb.subset_hint"].update({SUBSET: hint})
    assert read_head(message).allowed == allowed
    assert read_head(head()).allowed is None
    other = head()
    other.metadata_context.filter_metadata["envoy.lb.subset_hint"].update({"else": "x"})
    assert read_head(other).allowed is None


def test_the_endpoint_is_said_in_header_and_metadata_and_overrules_the_clients() -> None:
    response = picked(A, 12)
    options = response.request_headers.response.header_mutation.set_headers
    said = {option.header.key: option.header.raw_value for option in options}
    assert said == {"x-gateway-destination-endpoint": A.encode(), "x-justitia-picked": b"12"}
    assert {option.append_action for option in options} == {options[0].OVERWRITE_IF_EXISTS_OR_ADD}
    assert response.dynamic_metadata["envoy.lb"]["x-gateway-destination-endpoint"] == A
    assert response.request_headers.response.clear_route_cache
    override = response.mode_override
    assert (override.request_body_mode, override.response_body_mode) == (ProcessingMode.NONE, ProcessingMode.NONE)
    assert override.response_header_mode == ProcessingMode.SKIP


def test_a_refusal_is_the_clients_answer() -> None:
    immediate = refused(Refuse(1, 503, [(b"retry-after", b"2")], b"{}")).immediate_response
    assert (immediate.status.code, immediate.body) == (503, b"{}")
    assert [(each.header.key, each.header.raw_value) for each in immediate.headers.set_headers] == [
        ("retry-after", b"2")
    ]


@pytest.mark.parametrize("size", [0, 1, LONGEST_PIECE, LONGEST_PIECE + 1, 3 * LONGEST_PIECE])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("kind", ["request_body", "response_body"])
def test_a_body_comes_back_as_it_is_in_pieces_and_ends_once(kind: str, ends: bool, size: int) -> None:
    message = ProcessingRequest()
    body = getattr(message, kind)
    body.body, body.end_of_stream = bytes(range(256)) * (size // 256) + b"x" * (size % 256), ends
    responses = list(passed(message, BOTH))
    assert [each.WhichOneof("response") for each in responses] == [kind] * len(responses)
    pieces = [getattr(each, kind).response.body_mutation.streamed_response for each in responses]
    assert b"".join(piece.body for piece in pieces) == body.body
    assert [piece.end_of_stream for piece in pieces] == [False] * (len(pieces) - 1) + [ends]
    assert max(len(piece.body) for piece in pieces) <= LONGEST_PIECE


def test_bodies_that_the_gateway_keeps_are_not_sent_back() -> None:
    message = ProcessingRequest()
    message.request_body.body = b"hello"
    (response,) = passed(message, (False, True))
    assert not response.request_body.response.HasField("body_mutation")


@pytest.mark.parametrize("kind", ["response_headers", "request_trailers", "response_trailers"])
def test_everything_else_is_answered_in_kind_and_changed_in_nothing(kind: str) -> None:
    message = ProcessingRequest()
    getattr(message, kind).SetInParent()
    (response,) = passed(message, BOTH)
    assert response.WhichOneof("response") == kind
    assert getattr(response, kind).ByteSize() == 0


def test_a_gateway_says_how_it_shows_bodies_or_shows_them_in_full_duplex() -> None:
    assert full_duplex(head()) == (True, True)
    message = head()
    message.protocol_config.request_body_mode = ProcessingMode.BUFFERED
    message.protocol_config.response_body_mode = ProcessingMode.FULL_DUPLEX_STREAMED
    assert full_duplex(message) == (False, True)


def test_a_request_ends_with_its_last_piece_or_its_trailers() -> None:
    piece, last, trailers = ProcessingRequest(), ProcessingRequest(), ProcessingRequest()
    piece.request_body.body = b"x"
    last.request_body.end_of_stream = True
    trailers.request_trailers.SetInParent()
    assert [ends_request(each) for each in (piece, last, trailers)] == [False, True, True]
