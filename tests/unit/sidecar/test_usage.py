import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_sidecar.request import usage as usage_module
from justitia_sidecar.request.usage import EventSplitter, EventTooLongError, StreamedCount, read_answer, read_event

USAGE = {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}


def event(text: str, **members: object) -> bytes:
    body = {"id": "cmpl-1", "choices": [{"index": 0, "text": text}], **members}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def total() -> bytes:
    return event("", usage=USAGE, choices=[])


@given(st.text(), st.booleans())
def test_cutting_usage_leaves_exactly_the_event_without_it(text: str, trailing: bool) -> None:
    more = {"prompt_text": None} if trailing else {}
    read = read_event(event(text, usage=USAGE, **more), keep_usage=False, keep_continuous=False)
    assert read.forward == event(text, **more)
    assert read.usage is not None
    assert (read.usage.prompt_tokens, read.usage.completion_tokens) == (3, 2)


def test_a_text_that_looks_like_usage_is_not_touched() -> None:
    text = ',"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}'
    read = read_event(event(text, usage=USAGE), keep_usage=False, keep_continuous=False)
    assert read.forward == event(text)


def test_totals_that_nobody_asked_for_are_dropped_and_counted() -> None:
    read = read_event(total(), keep_usage=False, keep_continuous=False)
    assert read.forward == b""
    assert read.usage is not None


def test_totals_that_the_client_asked_for_are_kept() -> None:
    assert read_event(total(), keep_usage=True, keep_continuous=False).forward == total()


def test_continuous_usage_that_the_client_asked_for_is_kept() -> None:
    sent = event("a", usage=USAGE)
    assert read_event(sent, keep_usage=True, keep_continuous=True).forward == sent


@pytest.mark.parametrize(
    "sent", [b"data: {nonsense\n\n", b": comment\n\n", b"data: [DONE]\n\n", b'data: {"usage":7}\n\n', b"\n\n"]
)
def test_what_cannot_be_read_is_forwarded_as_it_is(sent: bytes) -> None:
    read = read_event(sent, keep_usage=False, keep_continuous=False)
    assert read.forward == sent
    assert read.usage is None


@given(st.lists(st.text(), min_size=1), st.data())
def test_events_survive_any_cut_of_the_bytes(texts: list[str], data: st.DataObject) -> None:
    events = [event(text) for text in texts]
    stream = b"".join(events)
    splitter = EventSplitter()
    got: list[bytes] = []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        got += splitter.feed(stream[:cut])
        stream = stream[cut:]
    assert got == events


def test_an_event_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "MAXIMUM_EVENT_BYTES", 100)
    splitter = EventSplitter()
    splitter.feed(b"x" * 101)
    with pytest.raises(EventTooLongError):
        splitter.feed(b"x")


def test_usage_of_a_whole_answer_tells_the_cached_part() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 1}}
    usage = read_answer(json.dumps({"usage": {**USAGE, **details}}).encode())
    assert usage is not None
    assert usage.cached == 1
    assert read_answer(b"[]") is None


def told(count: StreamedCount, choice: int, prompt: int, produced: int) -> None:
    usage = {"prompt_tokens": prompt, "completion_tokens": produced}
    sent = event("", choices=[{"index": choice, "text": "a"}], usage=usage)
    count.add(read_event(sent, keep_usage=False, keep_continuous=False))


@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=40))
def test_a_count_is_the_sum_over_choices_whatever_their_order(choices: int, events: list[tuple[int, int]]) -> None:
    count, produced = StreamedCount(choices), dict.fromkeys(range(9), 0)
    for choice, more in events:
        produced[choice] += more
        told(count, choice, 10 + choice // choices, produced[choice])
    prompts = {choice // choices for choice, _ in events}
    assert count.produced == sum(produced.values())
    assert count.prompts == len(prompts)
    assert count.prompt_tokens == (sum(10 + prompt for prompt in prompts) if prompts else None)


def test_the_totals_decide_when_they_come() -> None:
    count = StreamedCount(2)
    told(count, 1, 3, 1)
    sent = event("", choices=[], usage={"prompt_tokens": 7, "completion_tokens": 9})
    count.add(read_event(sent, keep_usage=False, keep_continuous=False))
    count.add(read_event(b"data: [DONE]\n\n", keep_usage=False, keep_continuous=False))
    assert (count.prompt_tokens, count.produced) == (7, 9)


def test_an_event_without_usage_is_a_token_of_its_choice() -> None:
    count = StreamedCount(2)
    for index in (0, 1, 0):
        sent = event("", choices=[{"index": index, "text": "a"}])
        count.add(read_event(sent, keep_usage=False, keep_continuous=False))
    assert (count.prompt_tokens, count.produced) == (None, 3)
