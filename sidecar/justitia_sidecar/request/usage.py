"""Reads the engine's answers without rewriting them: SSE events, token counts, usage that the client did not ask for.

The engine runs with usage forced. So each event of a stream carries `"usage":{...}`, cumulative, for its choice and
that choice's prompt alone; the last event, without choices, carries the request's totals. A client that did not ask for
usage gets the same bytes without it: the member is cut out where it stands, and an event without choices is dropped. An
event that cannot be read is forwarded as it is.
"""

from dataclasses import dataclass

import msgspec

from justitia_vocabulary.units import Tokens

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


class _Choice(msgspec.Struct):
    index: int = 0


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: msgspec.Raw = msgspec.Raw()


class _Answer(msgspec.Struct):
    usage: Usage | None = None


_event = msgspec.json.Decoder(_Event)
_usage = msgspec.json.Decoder(Usage)
_answer = msgspec.json.Decoder(_Answer)


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event: what to forward, what the engine has counted so far (None: it does not say), and for which choice
    (None: the whole request).
    """

    forward: bytes
    usage: Usage | None
    choice: int | None


class StreamedCount:
    """The engine's count for a request, over all its choices, by the events so far.

    The engine numbers choices by prompt: first the `choices` of the first prompt, then those of the second.
    """

    def __init__(self, choices: int) -> None:
        self._choices = choices
        self._prompts: dict[int, Tokens] = {}
        self._produced: dict[int, Tokens] = {}
        self._totals: Usage | None = None

    @property
    def prompt_tokens(self) -> Tokens | None:
        """Tokens of the prompts that the engine has counted. None before the first."""
        if self._totals is not None:
            return self._totals.prompt_tokens
        return sum(self._prompts.values()) if self._prompts else None

    @property
    def prompts(self) -> int:
        """The number of prompts that the engine has counted."""
        return len(self._prompts)

    @property
    def produced(self) -> Tokens:
        return sum(self._produced.values()) if self._totals is None else self._totals.completion_tokens or 0

    def add(self, event: StreamEvent) -> None:
        """Add an event. One without usage counts as a token of its choice."""
        usage, choice = event.usage, event.choice
        if choice is None:
            self._totals = usage or self._totals
        elif usage is None:
            self._produced[choice] = self._produced.get(choice, 0) + 1
        else:
            self._prompts[choice // self._choices] = usage.prompt_tokens
            self._produced[choice] = usage.completion_tokens or 0


class EventTooLongError(ValueError):
    """The engine sent more than `MAXIMUM_EVENT_BYTES` without ending an event."""


class EventSplitter:
    """Splits bytes, as they come from the socket, into whole events with their blank line."""

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
    """Read an event. `keep_usage`: the client asked for the totals. `keep_continuous`: it asked for usage in each
    event.
    """
    if not event.startswith(_PREFIX):
        return StreamEvent(event, None, None)
    try:
        parsed = _event.decode(memoryview(event)[6:])
        raw = bytes(parsed.usage)
        usage = _usage.decode(raw) if raw and raw != b"null" else None
    except msgspec.DecodeError:
        return StreamEvent(event, None, None)
    choice = parsed.choices[0].index if parsed.choices else None
    if usage is None or (keep_usage if choice is None else keep_continuous):
        return StreamEvent(event, usage, choice)
    forward = b"" if choice is None else event.replace(b',"usage":' + raw, b"", 1)
    return StreamEvent(forward, usage, choice)


def read_answer(body: bytes) -> Usage | None:
    """The usage of an answer that is not streamed. None if it has none."""
    try:
        return _answer.decode(body).usage
    except msgspec.DecodeError:
        return None
