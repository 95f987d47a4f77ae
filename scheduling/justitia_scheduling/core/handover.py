"""What an order that is kept in front of an engine hands over to it, and with which priority.

The engine has a queue of its own: requests that were handed over and that it has not begun. Too short a queue leaves
its KV space unused for a round trip each time that requests end. The order of what is in it cannot be changed. So

- a waiting request is handed over while fewer than W of those in the queue go before it in the present order. Those
  that go after it do not keep it waiting, because
- it takes its place among all that the engine has by its priority number: the engine begins the smallest first, and
  preempts the largest first when it runs out of KV space. A number stands, whatever becomes of the order.

      W = 1 + 2 * (the most requests that began within one turnaround, in the last `REMEMBERED` seconds)

within `LEAST` and `MOST`. A turnaround is the time from handing a request over until it is seen to have begun, if the
engine takes it at once: the round trip and a step. Within one, the engine begins no more than it has. So W grows while
the engine takes all of it. W is no larger because the order in the queue is that of an earlier moment.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from operator import itemgetter

from justitia_vocabulary.units import RequestId, Seconds

LEAST, MOST = 8, 64
"""Bounds of W."""
REMEMBERED: Seconds = 10.0
APART, NEAR = 2**28, 2**14
"""Between a request's number and the number before it: at the end of the queue, and elsewhere. When 14 requests have
each gone directly before the last, or 16,384 each directly after it, no number is left between two: theirs are equal
then, and the engine takes the older first.
"""


class Window:
    """W, from the moments at which requests began."""

    def __init__(self) -> None:
        self._begun: deque[Seconds] = deque(maxlen=MOST)
        self._bursts: deque[tuple[Seconds, int]] = deque()

    @property
    def size(self) -> int:
        """W as of the last beginning."""
        burst = self._bursts[0][1] if self._bursts else 0
        return max(LEAST, min(1 + 2 * burst, MOST))

    def begun(self, now: Seconds, turnaround: Seconds) -> None:
        """Note that the engine has begun a request. O(1) on average."""
        self._begun.append(now)
        while self._begun[0] < now - turnaround:
            self._begun.popleft()
        burst = len(self._begun)
        while self._bursts and self._bursts[-1][1] <= burst:
            self._bursts.pop()
        self._bursts.append((now, burst))
        while self._bursts[0][0] < now - REMEMBERED:
            self._bursts.popleft()


class HandedOver:
    """The requests that the engine has, by number. `key` is a request's place in the present order.

    Handing one over asks for the keys of those that it goes before, `fewer_before` for those in the engine's queue. So
    both cost what the engine's seats and W allow, however many wait here.
    """

    def __init__(self, key: Callable[[RequestId], tuple[float, ...]]) -> None:
        self._key = key
        self._ordered: list[tuple[int, RequestId]] = []
        self._numbers: dict[RequestId, int] = {}
        self._counted: dict[RequestId, None] = {}
        self._last = 0

    def fewer_before(self, request: RequestId, limit: int) -> bool:
        """Whether fewer than `limit` in the engine's queue go before a request in the present order."""
        if len(self._counted) < limit:
            return True
        key, before = self._key(request), 0
        for other in self._counted:
            before += self._key(other) < key
            if before == limit:
                return False
        return True

    def hand_over(self, request: RequestId) -> int:
        """Give the engine a request, which goes before those with the largest numbers that it precedes in the present
        order. Returns its number.
        """
        key, ordered, place = self._key(request), self._ordered, len(self._ordered)
        if not ordered:
            self._last = 0
        while place and self._key(ordered[place - 1][1]) > key:
            place -= 1
        if place == len(ordered):
            number = self._last = self._last + APART
        elif place == 0:
            number = ordered[0][0] - APART
        else:
            below, above = ordered[place - 1][0], ordered[place][0]
            number = below + min(NEAR, (above - below) // 2)
            place = bisect_right(ordered, number, key=itemgetter(0))
        ordered.insert(place, (number, request))
        self._numbers[request] = number
        self._counted[request] = None
        return number

    def number(self, request: RequestId) -> int:
        return self._numbers[request]

    def discount(self, request: RequestId) -> None:
        """Count the request no longer as one of the engine's queue: it has begun, or others shall not wait for it."""
        self._counted.pop(request, None)

    def over(self, request: RequestId) -> None:
        """The engine has the request no longer."""
        self.discount(request)
        place = bisect_left(self._ordered, self._numbers.pop(request), key=itemgetter(0))
        while self._ordered[place][1] != request:
            place += 1
        del self._ordered[place]
