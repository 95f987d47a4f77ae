"""The codec between sidecar and engine."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_channel.messages import (
    About,
    Admitted,
    Arrived,
    AskQueue,
    Closed,
    Configure,
    Hello,
    Message,
    PlugInSnapshot,
    Queue,
    RunEnded,
    Share,
    Ticket,
    WaitingRequest,
)
from justitia_channel.wire import LONGEST_LINE, ChannelError, Lines, decode, encode
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.report import PolicyReport
from justitia_vocabulary.units import ApplicationId, RunId, TenantId
from justitia_vocabulary.waiting import WaitingReason

positive = st.floats(1e-3, 1e12)
names = st.text(st.characters(codec="utf-8"), max_size=40)
counts = st.integers(0, 2**53)
abouts = st.builds(About, st.none() | names, *[st.none() | counts for _ in range(3)], st.none() | names)
tenants = st.dictionaries(names.map(TenantId), positive, max_size=3)
reports = st.builds(PolicyReport, *[st.none() | positive for _ in range(7)])
step_times = st.builds(StepTime, positive, positive, positive)
rows = st.builds(
    WaitingRequest, names, st.sampled_from(WaitingReason), counts, counts, order_key=st.dictionaries(names, positive)
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Hello, counts, names, abouts),
    st.builds(
        Configure,
        counts,
        names,
        names,
        st.dictionaries(names, positive, max_size=5),
        st.dictionaries(names, positive, max_size=3),
        st.dictionaries(names.map(ApplicationId), st.builds(Share, positive, st.integers(-10, 10)), max_size=3),
    ),
    st.builds(
        Ticket,
        names,
        names.map(TenantId),
        names.map(ApplicationId),
        names.map(RunId),
        counts,
        *[st.none() | positive for _ in range(3)],
    ),
    st.builds(RunEnded, names.map(RunId)),
    st.builds(AskQueue, counts),
    st.builds(Arrived, names),
    st.builds(Admitted, names, counts),
    st.builds(Closed, names, counts, st.booleans(), counts, counts, counts, counts, positive),
    st.builds(
        PlugInSnapshot,
        counts,
        service=tenants,
        application_service=st.dictionaries(names.map(ApplicationId), positive, max_size=3),
        step_time=st.none() | step_times,
        policy=reports,
    ),
    st.builds(Queue, counts, st.lists(rows, max_size=3)),
)


@given(messages=st.lists(MESSAGES, max_size=6), cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_messages_arrive_as_they_were_sent_however_the_bytes_are_cut(messages: list[Message], cuts: list[int]) -> None:
    data = b"".join(map(encode, messages))
    lines, found, start = Lines(), list[Message](), 0
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        found += map(decode, lines.feed(data[start:cut]))
        start = cut
    assert found == messages


@given(
    st.binary(max_size=100) | st.recursive(st.none() | counts | names, st.lists).map(lambda v: json.dumps(v).encode())
)
def test_what_is_no_message_is_an_error_and_nothing_else(line: bytes) -> None:
    with pytest.raises(ChannelError) as caught:
        decode(line)
    assert not caught.value.fatal


def ticket(**changes: Any) -> bytes:
    whole = {"kind": "ticket", "key": "a", "tenant": "t", "application": "n/a", "run": "r"}
    return json.dumps(whole | changes).encode()


def test_a_message_keeps_its_tag_whatever_its_class_is_called() -> None:
    assert json.loads(encode(PlugInSnapshot()))["kind"] == "snapshot"


def test_what_an_earlier_version_does_not_tell_has_its_default() -> None:
    assert decode(b'{"kind":"snapshot","stepTime":{"per_step":1,"per_token":2,"per_kv_token":3}}') == PlugInSnapshot(
        step_time=StepTime(1.0, 2.0, 3.0)
    )


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert decode(ticket(colour="red")) == Ticket("a", TenantId("t"), ApplicationId("n/a"), RunId("r"))


@pytest.mark.parametrize(
    "changes",
    [
        {"tenant": 3},
        {"run": None},
        {"runCost": "12"},
        {"runCost": -1.0},
        {"runCost": float("inf")},
        {"runCost": True},
        {"kind": "message"},
        {"kind": ["ticket"]},
    ],
    ids=str,
)
def test_a_malformed_ticket_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ChannelError):
        decode(ticket(**changes))


def test_a_line_longer_than_any_message_ends_the_conversation() -> None:
    lines = Lines()
    lines.feed(b"a" * LONGEST_LINE)
    with pytest.raises(ChannelError, match="no message is that long") as caught:
        lines.feed(b"a")
    assert caught.value.fatal


def test_a_message_that_would_be_too_long_is_not_sent() -> None:
    with pytest.raises(ChannelError, match="too long"):
        encode(PlugInSnapshot(failure="a" * LONGEST_LINE))
