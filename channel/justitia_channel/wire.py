"""Messages as bytes: a line of JSON each, `{"kind": "ticket", ...}`."""

import msgspec

from justitia_channel.messages import Message

LONGEST_LINE = 4 << 20
"""Bytes. A peer that sends a longer one is not understood. A `Configure` or a `PlugInSnapshot` is shorter than the
documents of its pool, whose tenants and applications it names, and these have at most as many bytes.
"""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class ChannelError(ValueError):
    """What came is no message of this version. `fatal`: what follows cannot be read either."""

    def __init__(self, message: str, *, fatal: bool) -> None:
        super().__init__(message)
        self.fatal = fatal


def encode(message: Message) -> bytes:
    """The message as a line. Raises ChannelError where it is longer than one may be."""
    line = _encoder.encode(message)
    if len(line) >= LONGEST_LINE:
        raise ChannelError(f"a {type(message).__name__} of {len(line)} bytes is too long", fatal=False)
    return line + b"\n"


def decode(line: bytes) -> Message:
    """The message in a line. Raises ChannelError, not fatal, where it has none."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ChannelError(f"a malformed message: {error}", fatal=False) from None


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
