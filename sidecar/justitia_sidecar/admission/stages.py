"""The stages of a request on its way through the sidecar, and the events that lead from one to another."""

from enum import Enum
from types import MappingProxyType


class Stage(Enum):
    HELD = "held"
    """Held back from the order: its tenant is at a limit, or no more of its requests are sent for the moment."""
    QUEUED = "queued"
    """Released into the order, and not sent."""
    SENT = "sent"
    """In the engine, which is not known to have begun with it."""
    STARTED = "started"
    """In the engine, which has begun with it."""
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
