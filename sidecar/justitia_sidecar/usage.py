"""Reading the engine's answers without rewriting them: SSE events, token counts, usage that nobody asked for.

The engine runs with usage forced, so each event of a stream carries `"usage":{...}`, cumulative, and a last one
without choices carries the totals. A client that did not ask for them gets the same bytes without them: the
member is cut out where it stands, an event with empty choices is dropped. An event that cannot be read is
forwarded as it is.
"""

from dataclasses import dataclass

import msgspec

from justitia_scheduling.model import Tokens

MAXIMUM_EVENT_BYTES = 8 * 2**20

_PREFIX = b"data: {"
_END = b"\n\n"


class _CachedTokens(msgspec.Struct):
    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int | None = 0
    prompt_tokens_details: _CachedTokens | None = None

    @property
    def cached(self) -> Tokens:
        details = self.prompt_tokens_details
        return (details.cached_tokens or 0) if details else 0


class _Event(msgspec.Struct):
    choices: list[msgspec.Raw] = []
    usage: msgspec.Raw = msgspec.Raw()


class _Answer(msgspec.Struct):
    usage: Usage | None = None


_event = msgspec.json.Decoder(_Event)
_usage = msgspec.json.Decoder(Usage)
_answer = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """What to forward, and what the engine has counted by this event (None: it does not say)."""

    forward: bytes
    usage: Usage | None
    has_choices: bool


class EventTooLongError(ValueError):
    """The engine sent more than `MAXIMUM_EVENT_BYTES` without ending an event."""


class EventSplitter:
    """Bytes as they come from the socket, to whole events with their blank line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        if len(self._rest) > MAXIMUM_EVENT_BYTES:
            raise EventTooLongError(f"the engine sent {len(self._rest)} bytes without ending an event")
        if self._rest:
            data = self._rest + data
        parts = data.split(_END)
        self._rest = parts.pop()
        return [part + _END for part in parts]


def read_event(event: bytes, *, keep_usage: bool, keep_continuous: bool) -> StreamEvent:
    """`keep_usage`: the client asked for the totals; `keep_continuous`: for usage in each event."""
    if not event.startswith(_PREFIX):
        return StreamEvent(event, None, has_choices=False)
    try:
        parsed = _event.decode(memoryview(event)[6:])
        raw = bytes(parsed.usage)
        usage = _usage.decode(raw) if raw and raw != b"null" else None
    except msgspec.DecodeError:
        return StreamEvent(event, None, has_choices=False)
    has_choices = bool(parsed.choices)
    if usage is None or (keep_continuous if has_choices else keep_usage):
        return StreamEvent(event, usage, has_choices)
    forward = event.replace(b',"usage":' + raw, b"", 1) if has_choices else b""
    return StreamEvent(forward, usage, has_choices)


def read_answer(body: bytes) -> Usage | None:
    """Usage of a non-streamed answer; None where it has none."""
    try:
        return _answer.decode(body).usage
    except msgspec.DecodeError:
        return None
