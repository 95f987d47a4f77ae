"""What the sidecars of a pool write for each other to read, and its bytes (MessagePack).

Fields that a reader does not know are passed over, and missing ones have their defaults, so that two releases
understand each other.
"""

from typing import NewType

import msgspec
from msgspec import Struct

from justitia_channel.messages import NotNegative, RunOfPool
from justitia_vocabulary.units import RunId, TenantId

WriterId = NewType("WriterId", str)
"""A sidecar's process."""


class Update(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a sidecar tells the others. `served` are totals in `unit`, of tenants whose total has grown; `delivered` is
    growth; `opened` and `closed` are runs of which requests come in there. With `whole`, `served` and `opened` are all.
    """

    writer: WriterId
    number: int
    unit: str = ""
    whole: bool = False
    served: dict[TenantId, NotNegative] = {}
    delivered: dict[RunId, NotNegative] = {}
    opened: list[RunOfPool] = []
    closed: list[RunId] = []


class UpdateError(Exception):
    """The bytes are no update."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Update)


def encode(update: Update) -> bytes:
    return _encoder.encode(update)


def decode(data: bytes) -> Update:
    """Raises UpdateError."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UpdateError(str(error)) from error
