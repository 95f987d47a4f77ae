"""The sidecar's end of the channel, with an engine that is there or not as a test says, and hears nothing."""

from justitia_channel.messages import Configure, Message, Ticket
from justitia_channel.wire import decode
from justitia_sidecar.engine.channel import EngineChannel
from justitia_vocabulary.policies import Knob


class Listening(EngineChannel):
    """Keeps what would be sent to the plug-in."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Message] = []
        self.there = True
        self.peer = "engine"

    @property
    def connected(self) -> bool:
        return self.there

    def send(self, message: Message) -> None:
        self.told.append(message)

    def tickets(self) -> list[Ticket]:
        return [message for message in self.told if isinstance(message, Ticket)]

    def bounds(self) -> list[list[float | None]]:
        """Floor and ceiling of gamma in each configuration."""
        configured = [message.knobs for message in self.told if isinstance(message, Configure)]
        return [[knobs.get(Knob.GAMMA_FLOOR), knobs.get(Knob.GAMMA_CEILING)] for knobs in configured]


class SilentConnection:
    """A plug-in's end that takes all that is written and answers nothing. `backlog` bytes of it wait to be read."""

    def __init__(self) -> None:
        self.written: list[Message] = []
        self.backlog = 0
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += map(decode, data.splitlines())

    def get_write_buffer_size(self) -> int:
        return self.backlog

    def close(self) -> None:
        self.closed = True
