"""Where a request is on its way through the sidecar, and how it gets from one stage to another."""

from enum import Enum
from types import MappingProxyType


class Stage(Enum):
    HELD = "held"
    """Kept out of the order: its tenant is at a limit, or the engine is given no more of its requests."""
    QUEUED = "queued"
    """In the order, and not sent."""
    SENT = "sent"
    """The engine has it, and is not known to have begun."""
    STARTED = "started"
    """The engine has begun."""
    OVER = "over"


class Event(Enum):
    RELEASE = "release"
    HOLD_BACK = "hold back"
    SEND = "send"
    START = "start"
    END = "end"


TRANSITIONS = MappingProxyType(
    {
        Stage.HELD: {Event.RELEASE: Stage.QUEUED, Event.END: Stage.OVER},
        Stage.QUEUED: {Event.HOLD_BACK: Stage.HELD, Event.SEND: Stage.SENT, Event.END: Stage.OVER},
        Stage.SENT: {Event.START: Stage.STARTED, Event.END: Stage.OVER},
        Stage.STARTED: {Event.END: Stage.OVER},
        Stage.OVER: {},
    }
)


class ImpossibleTransitionError(RuntimeError):
    """A bug: what happened to a request cannot happen at its stage."""


def after(stage: Stage, event: Event) -> Stage:
    """The next stage. Raises ImpossibleTransitionError."""
    try:
        return TRANSITIONS[stage][event]
    except KeyError:
        raise ImpossibleTransitionError(f"a request that is {stage.value} cannot {event.value}") from None
