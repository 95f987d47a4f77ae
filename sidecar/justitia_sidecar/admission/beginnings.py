"""Requests that the engine has and has not begun, where the order is kept in front of it.

What goes to the engine next, and with which priority, is decided by `core/handover.py` of `scheduling/`. Here is what
can be seen of beginnings: a streamed request has begun at its first chunk. Of another one nothing is seen until it is
over, so it is taken to have begun when its prefill should be over, by the fitted step time.

A request may take longer for two reasons. The engine has no KV space or seat for it yet: then it is where it should be,
and counts in the engine's queue. Or it waits for a grammar or media: then others must not wait for it. So the time does
not decide alone. A request whose time is over is late if the engine has begun one that goes after it, or if the engine
says that none waits for capacity. Others wait no longer for a late one, and if it is streamed it is overdue. One that
is not streamed is presumed to have begun, which a probe confirms that finds nothing deferred.

A tenant is stuck when one of its requests is overdue and `TRIES` of them have not begun, or when it fills `WINDOWS`
windows, with those that are only presumed to have begun: no further one is sent until some have begun. So a tenant can
delay others for one patience at a time, and then only its own requests.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable

from justitia_scheduling.core.handover import MOST, HandedOver, Window
from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import RequestId, Seconds, TenantId

TRIES = 2
WINDOWS = 3
"""A tenant has at most so many times W requests in the engine that have not begun. Requests that overtake its own are
why one window is not enough."""
PATIENCE: Seconds = 1.0
"""The least time after which a streamed request that has not begun may be overdue."""
SLOWER = 4
"""The patience in multiples of the time that the prefill should take, where that is longer."""
ROUND_TRIPS = 64
"""The shortest of so many round trips is the one without waiting."""


class Beginnings:
    """`key` is a request's place in the present order."""

    def __init__(self, key: Callable[[RequestId], tuple[float, ...]]) -> None:
        self._handed = HandedOver(key)
        self._window = Window()
        self._round_trips: deque[Seconds] = deque(maxlen=ROUND_TRIPS)
        self._waited_for: dict[RequestId, tuple[TrackedRequest, Seconds]] = {}
        """Requests that others wait for, each with when it should have begun."""
        self._overtaken: set[RequestId] = set()
        """Those of them that the engine has passed over, for one that it got later and that goes after them."""
        self._overdue: dict[RequestId, TrackedRequest] = {}
        self._overdue_of: defaultdict[TenantId, int] = defaultdict(int)
        self._not_begun_of: defaultdict[TenantId, int] = defaultdict(int)
        self._presumed: dict[RequestId, TrackedRequest] = {}
        self._presumed_of: defaultdict[TenantId, int] = defaultdict(int)
        self._for_capacity = 0
        self._room_since: Seconds = -math.inf
        """When the engine was first seen without requests that wait for capacity."""
        self._to_presume = MOST
        self._kept_back: RequestId | None = None
        """The head that was not handed over, and nothing has left the engine's queue since."""

    def lets(self, request: TrackedRequest) -> bool:
        """Whether the head of the order may be sent. The answer for one head is kept until something begins, or the
        engine is asked again: charges alone seldom change it.
        """
        if self._kept_back == request.id:
            return False
        if self._handed.fewer_before(request.id, self._window.size):
            return True
        self._kept_back = request.id
        return False

    @property
    def next_due(self) -> Seconds | None:
        """When the next request is late, as far as is known. A probe may tell more."""
        waited_for = self._waited_for.values()
        return min((self._late_at(r, due) for r, due in waited_for if self._may_be_late(r)), default=None)

    def stuck(self, tenant: TenantId) -> bool:
        not_begun = self._not_begun_of.get(tenant, 0)
        overdue = self._overdue_of.get(tenant, 0) > 0 and not_begun >= TRIES
        return overdue or not_begun + self._presumed_of.get(tenant, 0) >= WINDOWS * self._window.size

    def given(self, request: TrackedRequest, now: Seconds, prefill: Seconds) -> int:
        """Note that the engine gets a request, whose prompt it should read in `prefill` seconds. Returns its priority
        number. To be called before the policy hears of it.
        """
        number = self._handed.hand_over(request.id)
        patience = max(PATIENCE, SLOWER * prefill) if request.asks.streamed else prefill
        self._waited_for[request.id] = request, now + patience
        self._not_begun_of[request.tenant] += 1
        return number

    def begun(self, request: TrackedRequest, now: Seconds, step: Seconds) -> None:
        """Note that a request has begun. A step takes `step` seconds at present."""
        number = self._handed.number(request.id)
        sent = request.timing.sent
        self._overtaken |= {
            name
            for name, (other, _) in self._waited_for.items()
            if other.timing.sent <= sent and self._handed.number(name) < number
        }
        if (answered := request.timing.answered) is not None:
            self._round_trips.append(answered - sent)
            self._window.begun(now, min(self._round_trips) + step)
        self._settle(request)

    def refused(self, request: TrackedRequest) -> None:
        """Note that the engine has not taken a request."""
        self._settle(request)

    def over(self, request: TrackedRequest) -> None:
        """Note that the engine has a request no longer."""
        self._settle(request)
        self._handed.over(request.id)

    def told(self, waiting: int, for_capacity: int, now: Seconds) -> list[TenantId]:
        """Note how many requests wait, as the engine says, and how many of these for capacity: the last ones. Returns
        the tenants whose requests are known to have begun.
        """
        confirmed: list[TenantId] = []
        if waiting <= for_capacity:
            confirmed = list(self._presumed_of)
            self._presumed.clear()
            self._presumed_of.clear()
        if self._for_capacity and not for_capacity:
            self._room_since = now
        self._for_capacity, self._to_presume, self._kept_back = for_capacity, MOST, None
        if for_capacity:
            ordered = sorted(self._waited_for, key=self._handed.number)
            self._overtaken |= {name for name in ordered[:-for_capacity] if not self._waited_for[name][0].asks.streamed}
        return confirmed

    def look(self, now: Seconds) -> None:
        """Let nobody wait any longer for requests that are late."""
        for request, due in list(self._waited_for.values()):
            if not self._may_be_late(request) or now < self._late_at(request, due):
                continue
            if not request.asks.streamed:
                self._to_presume -= request.id not in self._overtaken
                self._settle(request)
                self._presumed[request.id] = request
                self._presumed_of[request.tenant] += 1
                continue
            self._discount(request)
            self._overdue[request.id] = request
            self._overdue_of[request.tenant] += 1

    # How.

    def _may_be_late(self, request: TrackedRequest) -> bool:
        """Whether it is the request that keeps the engine from beginning with it. Of those that are not streamed, only
        so many are taken to have begun between two probes.
        """
        if request.id in self._overtaken:
            return True
        return not self._for_capacity and (request.asks.streamed or self._to_presume > 0)

    def _late_at(self, request: TrackedRequest, due: Seconds) -> Seconds:
        """A stream that waited for capacity has its patience again from when there is some."""
        if request.id in self._overtaken or not request.asks.streamed:
            return due
        return max(due, self._room_since + PATIENCE)

    def _settle(self, request: TrackedRequest) -> None:
        """The request has begun, or is over."""
        if self._presumed.pop(request.id, None) is not None:
            _take_one(self._presumed_of, request.tenant)
            return
        overdue = self._overdue.pop(request.id, None) is not None
        if overdue:
            _take_one(self._overdue_of, request.tenant)
        elif request.id not in self._waited_for:
            return
        self._discount(request)
        _take_one(self._not_begun_of, request.tenant)

    def _discount(self, request: TrackedRequest) -> None:
        self._handed.discount(request.id)
        self._waited_for.pop(request.id, None)
        self._overtaken.discard(request.id)
        self._kept_back = None


def _take_one(counts: dict[TenantId, int], tenant: TenantId) -> None:
    """Count one less. Tenants without any are not kept."""
    counts[tenant] -= 1
    if not counts[tenant]:
        del counts[tenant]
