"""What a sidecar and a scheduler inside the engine tell each other, as bytes. Version 1.

A message is a line of JSON, `{"kind": "ticket", ...}`. To the engine: `Hello`, `Configure`, `Ticket` (before the
request that it is for), `RunEnded`, `AskQueue`. From it: `Hello`, `Arrived`, `Admitted`, `Closed`, `Snapshot`, `Queue`.
Each side sends `Hello` first; another version ends the connection.

A request's key is the id that the sidecar gives to the engine's server, 32 hexadecimal digits; the engine makes one or
more sequences of it, told apart by their number: `SEQUENCES_PER_PROMPT` times the prompt's index, plus the choice's.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from justitia_vocabulary.units import ApplicationId, KVTokenTime, RunId, Seconds, TenantId, Tokens

VERSION = 1
SEQUENCES_PER_PROMPT = 1 << 16
LONGEST_LINE = 1 << 20
"""Bytes. A peer that sends a longer one is not understood."""


class ChannelError(ValueError):
    """What came is no message of this version. `fatal`: what follows cannot be read either."""

    def __init__(self, message: str, *, fatal: bool) -> None:
        super().__init__(message)
        self.fatal = fatal


@dataclass(frozen=True, slots=True)
class Hello:
    """Who speaks. `instance` differs from process to process; `about` is for people and for the peer's checks."""

    version: int
    instance: str
    about: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Configure:
    """How to order from this moment on: policy and cost model by name, weights by tenant, bounds of gamma in 1/s,
    hysteresis in 1/gamma, ceiling of the burst in the cost model's unit.
    """

    generation: int
    policy: str
    cost_model: str
    weights: dict[str, float]
    gamma: list[float] | None = None
    hysteresis: float | None = None
    burst: float | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """Whose a request is, and what is predicted of its run (KV token-time, tokens) and of itself (tokens). The engine
    makes so many `sequences` of it. `sent` is the moment on the machine's monotonic clock, which both ends share.
    """

    key: str
    tenant: TenantId
    application: ApplicationId
    run: RunId
    sequences: int = 1
    run_cost: KVTokenTime | None = None
    run_prompt: float | None = None
    run_output: float | None = None
    output: float | None = None
    sent: Seconds | None = None


@dataclass(frozen=True, slots=True)
class RunEnded:
    """No request of the run will come again."""

    run: RunId


@dataclass(frozen=True, slots=True)
class AskQueue:
    """Asks for a `Queue` of at most `limit` requests."""

    limit: int


class Waits(StrEnum):
    """Why a request waits in the engine. The sidecar's `WaitingReason` has the same names."""

    ENGINE_BUSY = "EngineBusy"
    """It is next; the batch is full, or the last step had no tokens left for it."""
    NO_KV_SPACE = "NoKVSpace"
    """It is next; its tokens do not fit into the KV space that is free."""
    TENANT_GATED = "TenantGated"
    BEHIND_OTHERS = "BehindOthers"
    BEING_PREPARED = "BeingPrepared"
    """It could not be served yet: its grammar is being compiled."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """The first sequence of a request has come to the scheduler."""

    key: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """A sequence joined the batch for the first time."""

    key: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Closed:
    """A sequence is over, finished or aborted: what the engine did for it, and what its tenant was charged. `read` are
    the prompt's tokens that it computed, fewer than all where it was aborted meanwhile.
    """

    key: str
    sequence: int
    finished: bool
    prompt_tokens: Tokens
    cached: Tokens
    produced: Tokens
    preemptions: int
    charge: float
    read: Tokens = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The scheduler's state and counters, about once a second."""

    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Queue:
    """How many requests wait, and the first in order, each with why it waits (`justitia_engine.explain`)."""

    waiting: int
    requests: list[dict[str, Any]]


Message = Hello | Configure | Ticket | RunEnded | AskQueue | Arrived | Admitted | Closed | Snapshot | Queue
_KINDS: dict[str, type[Message]] = {kind.__name__.lower(): kind for kind in get_args(Message)}
_FIELDS = {kind: get_type_hints(kind) for kind in get_args(Message)}
_to_json = json.JSONEncoder(separators=(",", ":")).encode


def encode(message: Message) -> bytes:
    """The message as a line. Raises ChannelError where it is longer than one may be."""
    fields = {name: getattr(message, name) for name in _FIELDS[type(message)]}
    line = _to_json({"kind": type(message).__name__.lower(), **fields}).encode()
    if len(line) >= LONGEST_LINE:
        raise ChannelError(f"a {type(message).__name__} of {len(line)} bytes is too long", fatal=False)
    return line + b"\n"


def decode(line: bytes) -> Message:
    """The message in a line. Raises ChannelError, not fatal, where it has none."""
    try:
        told = json.loads(line)
        kind = _KINDS[told.pop("kind")]
        checks = _CHECKS[kind]
        message = kind(**{name: value for name, value in told.items() if name in checks})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ChannelError(f"no message: {error!r}", fatal=False) from None
    for name, fits in checks.items():
        if not fits(getattr(message, name)):
            raise ChannelError(f"{kind.__name__}.{name} must not be {getattr(message, name)!r:.80}", fatal=False)
    return message


class Lines:
    """Bytes as they come from the peer, to lines. Holds at most one that is not whole."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now. Raises ChannelError, fatal, where one is too long to be a message."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if max(map(len, lines), default=0) > LONGEST_LINE or len(self._rest) > LONGEST_LINE:
            raise ChannelError(f"a line of more than {LONGEST_LINE} bytes: no message is that long", fatal=True)
        return lines


def _check_of(hint: Any) -> Callable[[Any], bool]:
    """Whether a value has the type; the only unions are with None. Of type float are finite numbers that are not
    negative.
    """
    hint = getattr(hint, "__supertype__", hint)
    parts = get_args(hint)
    if isinstance(hint, UnionType):
        fits = _check_of(parts[0])
        return lambda value: value is None or fits(value)
    match get_origin(hint) or hint:
        case origin if origin is Any:
            return lambda value: True
        case origin if origin is float:
            return lambda value: type(value) in (int, float) and 0 <= value < math.inf
        case origin if origin is dict:
            fits_value = _check_of(parts[1])
            return lambda value: type(value) is dict and all(map(fits_value, value.values()))
        case origin if origin is list:
            fits_each = _check_of(parts[0])
            return lambda value: type(value) is list and all(map(fits_each, value))
        case origin:
            return lambda value: type(value) is origin


_CHECKS = {kind: {name: _check_of(hint) for name, hint in fields.items()} for kind, fields in _FIELDS.items()}
