"""What the sidecars of a pool write for each other to read, and its bytes (MessagePack).

Fields that a reader does not know are passed over, and missing ones have their defaults, so that two releases
understand each other.
"""

from typing import Annotated, NewType

import msgspec
from msgspec import Meta, Struct

from justitia_channel.messages import NotNegative, RunOfPool
from justitia_vocabulary.units import RunId, TenantId, Tokens

WriterId = NewType("WriterId", str)
"""A sidecar's process."""
RunNumber = NewType("RunNumber", int)
"""What a sidecar calls a run that is open there, from 0 on: names are long, and are said again with each update."""


NotNegativeCount = Annotated[int, Meta(ge=0, le=2**62)]


class RunGrowth(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What became of a run in one sidecar: how much more its requests cost, whether one was aborted, and whether its
    client ended it. Its engine has `context` tokens in its cache, those of its longest context.
    """

    cost: NotNegative = 0.0
    aborted: bool = False
    ended: bool = False
    context: Annotated[Tokens, Meta(ge=0)] = 0

    def __add__(self, other: "RunGrowth") -> "RunGrowth":
        return RunGrowth(
            self.cost + other.cost,
            self.aborted or other.aborted,
            self.ended or other.ended,
            max(self.context, other.context),
        )


class Load(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a sidecar takes requests from the pool's others (HOST:PORT), the tokens of the requests that it has, and
    whether its engine takes more. `public` is where it takes clients' requests, empty if no gateway is to know.
    """

    address: str
    outstanding: Annotated[Tokens, Meta(ge=0)] = 0
    takes: bool = False
    public: str = ""


class LimitUse(Struct, frozen=True, array_like=True):
    """What a sidecar uses of a tenant's limits, and claims of them (`slots.py`).

    It claims `slots` for running requests and wants so many; it needs some `at_once`, and its `ticket` says since when.
    So many requests are `waiting`. It has counted `tokens` in all, which only grow, and expects `reserved` ones of
    requests that are not over; `spent` are missing in its own bucket.
    """

    slots: NotNegativeCount = 0
    wants: NotNegativeCount = 0
    at_once: NotNegativeCount = 0
    ticket: NotNegativeCount = 0
    waiting: NotNegativeCount = 0
    tokens: NotNegativeCount = 0
    reserved: NotNegativeCount = 0
    spent: NotNegativeCount = 0


class Update(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a sidecar tells the others. `served` are totals in `unit`, of tenants whose total has grown; `delivered` is
    what its engine did for runs since the last update, as a policy counts it, `runs` what the sidecar saw of them.
    `opened` and `closed` are runs of which requests come in there; who opens one says its number. With `whole`,
    `served` are all totals, and all open runs are said again: in this update and, while there are `more`, in the next
    ones. `load` is None where no requests of others are taken. `limits` are those tenants' whose use of their limits
    has changed; with `whole`, all that use something.
    """

    writer: WriterId
    number: int
    unit: str = ""
    whole: bool = False
    more: bool = False
    served: dict[TenantId, NotNegative] = {}
    delivered: dict[RunNumber, NotNegative] = {}
    runs: dict[RunId, RunGrowth] = {}
    opened: dict[RunNumber, RunOfPool] = {}
    closed: list[RunNumber] = []
    load: Load | None = None
    limits: dict[TenantId, LimitUse] = {}


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
