"""What an endpoint picker and the sidecar beside it say to each other, and its bytes.

The picker is a process of its own (`picker/`): it has the gateways' connections, and the sidecar has what decides. Each
message is MessagePack behind its length, in four bytes.
"""

import asyncio
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

LONGEST_MESSAGE = 2**18
_LENGTH = 4

M = TypeVar("M")


class Ask(Struct, frozen=True, tag="ask"):
    """Which pod gets a request? `headers` are those that decide anything, `size` the bytes of its body, as far as the
    client has said. `allowed`: only one of these endpoints. None: any.
    """

    id: int
    path: str
    size: Annotated[int, Meta(ge=0)]
    headers: dict[str, str] = {}
    allowed: list[str] | None = None


class HandedOn(Struct, frozen=True, tag="handed_on"):
    """The gateway has the whole request, and sends it to where it was told."""

    id: int


class Over(Struct, frozen=True, tag="over"):
    """The request is over, or was given up."""

    id: int


Question = Ask | HandedOn | Over


class Pick(Struct, frozen=True, tag="pick"):
    """The endpoint for a request, and whose it is: empty where no valid key came with it."""

    id: int
    endpoint: str
    tenant: str = ""


class Refuse(Struct, frozen=True, tag="refuse"):
    """No pod gets the request. This answer is for the client."""

    id: int
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


Answer = Pick | Refuse


class AskError(Exception):
    """The bytes are no message."""


_encoder = msgspec.msgpack.Encoder()
questions: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def encode(message: Question | Answer) -> bytes:
    data = _encoder.encode(message)
    return len(data).to_bytes(_LENGTH, "big") + data


async def read(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[M]) -> M:
    """The next message. Raises AskError, and asyncio.IncompleteReadError at the end."""
    length = int.from_bytes(await reader.readexactly(_LENGTH), "big")
    if length > LONGEST_MESSAGE:
        raise AskError(f"a message of {length} bytes: none has more than {LONGEST_MESSAGE}")
    try:
        return decoder.decode(await reader.readexactly(length))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AskError(f"a malformed message: {error}") from None
