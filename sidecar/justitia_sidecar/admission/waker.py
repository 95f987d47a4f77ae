"""Pumps an admission at the moment when a request should have begun, even if nothing happens."""

import asyncio
import math
from collections.abc import Callable

from justitia_sidecar.admission.admission import Admission
from justitia_vocabulary.units import Seconds


class Waker:
    """`admission` returns the admission in effect, None before there is one."""

    def __init__(self, admission: Callable[[], Admission | None], clock: Callable[[], Seconds]) -> None:
        self._admission = admission
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._due: Seconds = math.inf

    def set(self) -> None:
        """Set the timer again, because something has happened."""
        admission, now = self._admission(), self._clock()
        when = None if admission is None else admission.next_look(now)
        if when is None or when >= self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = when
        self._timer = asyncio.get_running_loop().call_later(max(0.0, when - now), self._wake)

    def _wake(self) -> None:
        self._timer, self._due = None, math.inf
        if (admission := self._admission()) is not None:
            admission.pump(self._clock())
        self.set()
