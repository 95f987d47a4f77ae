"""An order kept in front of an engine: what the engine was handed, and which of it it takes next.

What to hand over, and with which priority, is decided as in the sidecar (`core/handover.py` of `scheduling/`).
"""

from bisect import insort
from collections.abc import Iterable

from justitia_scheduling.core.handover import HandedOver, Window
from justitia_simulator.line import Line
from justitia_vocabulary.units import RequestId, Seconds


class EngineFront:
    """Requests that were handed over. `latency` is the round trip: what is handed over at t can be taken from
    t + `latency` on, and what happens is seen at once.
    """

    def __init__(self, line: Line, latency: Seconds) -> None:
        self._latency = latency
        self._window = Window()
        self._handed = HandedOver(line.key)
        self._not_taken: list[tuple[int, Seconds, RequestId]] = []

    def lets(self, head: RequestId) -> bool:
        """Whether the head is handed over at this moment."""
        return self._handed.fewer_before(head, self._window.size)

    def hand_over(self, request: RequestId, now: Seconds) -> None:
        """Call it before the policy hears of it."""
        insort(self._not_taken, (self._handed.hand_over(request), now + self._latency, request))

    def next(self, now: Seconds) -> RequestId | None:
        """The request that the engine takes next, of those that have reached it."""
        return next((request for _, comes, request in self._not_taken if comes <= now), None)

    def next_comes(self, now: Seconds) -> Seconds | None:
        """When the next request reaches the engine."""
        return min((comes for _, comes, _ in self._not_taken if comes > now), default=None)

    def taken(self, request: RequestId) -> None:
        """The request has joined the batch."""
        self._not_taken = [entry for entry in self._not_taken if entry[2] != request]

    def preempted(self, request: RequestId, now: Seconds) -> None:
        insort(self._not_taken, (self._handed.number(request), now, request))

    def victim(self, running: Iterable[RequestId]) -> RequestId:
        """The running request that the engine preempts."""
        return max(running, key=self._handed.number)

    def begun(self, request: RequestId, now: Seconds, step: Seconds) -> None:
        """The request's first token came with a step of that duration."""
        self._handed.discount(request)
        self._window.begun(now, self._latency + step)

    def over(self, request: RequestId) -> None:
        self._handed.over(request)
