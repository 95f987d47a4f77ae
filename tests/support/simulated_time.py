"""A coroutine on a loop whose time is simulated: hours pass in no time."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import looptime

T = TypeVar("T")


def in_simulated_time(coroutine: Coroutine[Any, Any, T]) -> T:
    """Begins at 0."""
    loop = looptime.new_event_loop(start=0.0)
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
