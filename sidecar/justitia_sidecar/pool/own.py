"""What a sidecar has to tell the pool's others: what its engine served and delivered, and which runs are open here.

News is kept until it has been written; before the first update is asked for, nothing is kept but which runs are
open. An update whose writing failed may have been written all the same: it is written again as it is, and what came
since goes into the next.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import count

from justitia_channel.messages import RunOfPool
from justitia_sidecar.pool.totals import Totals
from justitia_sidecar.pool.updates import LimitUse, Load, RunGrowth, RunNumber, Update, WriterId
from justitia_vocabulary.units import KVTokenTime, RunId, Seconds, TenantId

WHOLE_EVERY: Seconds = 10.0
MOST_SAID = 250
"""The most open runs that one update says again: to read it takes up to two milliseconds."""
MOST_UNTOLD = 10_000
"""Runs whose growth, or whose end, has not been told. Beyond it that is dropped: others learn from the next whole
update which are open.
"""


Limits = Callable[[int, bool, Seconds], dict[TenantId, LimitUse]]
"""What the update of a number has to say of limits: all, if it is whole."""


class OwnNews:
    """What `writer` has to tell, with what `limits` has to say. A run may be open several times under one name; it
    closes with the last.
    """

    def __init__(self, writer: WriterId, limits: Limits = lambda number, whole, now: {}) -> None:
        self._writer = writer
        self._limits = limits
        self._number = 0
        self._tells = False
        self._unit = ""
        self._source: object = None
        self._seen: dict[TenantId, float] = {}
        self._totals = Totals()
        self._delivered: dict[RunNumber, KVTokenTime] = {}
        self._runs: dict[RunId, RunGrowth] = {}
        self._numbers: dict[RunId, RunNumber] = {}
        self._numbered = count()
        self._open: dict[RunNumber, RunOfPool] = {}
        self._times: dict[RunId, int] = {}
        self._opened: dict[RunNumber, RunOfPool] = {}
        self._closed: list[RunNumber] = []
        self._pending: Update | None = None
        self._whole_at: Seconds | None = None
        self._to_say: deque[RunNumber] = deque()
        """Open runs that the whole update under way has not said."""

    # What happens here.

    def served(self, unit: str, source: object, totals: Mapping[TenantId, float]) -> None:
        """What the engine has served in all. `source` is what counts: another one counts from 0. What the first had
        served before this call is the news of the sidecar that was here before.
        """
        if unit != self._unit:
            self._unit, self._totals = unit, Totals()
        if (unit, source) != self._source:
            first = self._source is None
            self._source, self._seen = (unit, source), dict(totals) if first else {}
        self._totals.add_growth(self._seen, totals)

    def delivered(self, growth: Mapping[RunId, KVTokenTime]) -> None:
        if not self._tells:
            return
        for run, more in growth.items():
            if (number := self._numbers.get(run)) is not None:
                self._delivered[number] = self._delivered.get(number, 0.0) + more
        self._keep_bound()

    def grew(self, run: RunId, growth: RunGrowth) -> None:
        if not self._tells:
            return
        before = self._runs.get(run)
        self._runs[run] = growth if before is None else before + growth
        self._keep_bound()

    def opened(self, run: RunOfPool) -> None:
        """A run begins here, or begins again under the name of one that is not over."""
        self._times[run.run] = self._times.get(run.run, 0) + 1
        if run.run not in self._numbers:
            number = self._numbers[run.run] = RunNumber(next(self._numbered))
            self._open[number] = self._opened[number] = run

    def closed(self, run: RunId) -> bool:
        """A run is over here. Returns False while another of its name is open."""
        self._times[run] -= 1
        if self._times[run]:
            return False
        number = self._numbers.pop(run)
        del self._times[run], self._open[number]
        if self._opened.pop(number, None) is None and self._tells:
            self._closed.append(number)
            self._keep_bound()
        return True

    # What to tell.

    def tell_all(self) -> None:
        """Somebody has missed earlier updates: the next one is whole."""
        self._whole_at = None

    def next(self, now: Seconds, load: Load | None = None) -> Update:
        """The update to write: the last one again, until it has been `written`. `load` is what others should know of
        this engine.
        """
        self._tells = True
        if self._pending is None:
            self._pending = self._make(now, load)
        return self._pending

    def written(self) -> None:
        self._pending = None

    # How.

    def _make(self, now: Seconds, load: Load | None) -> Update:
        whole = self._whole_at is None or (now >= self._whole_at and not self._to_say)
        if whole:
            self._whole_at = now + WHOLE_EVERY
            self._totals.tell_all()
            self._to_say = deque(self._open)
        said = [self._to_say.popleft() for _ in range(min(len(self._to_say), MOST_SAID))]
        opened = {number: self._open[number] for number in said if number in self._open} | self._opened
        update = Update(
            self._writer,
            self._number,
            self._unit,
            whole,
            bool(self._to_say),
            self._totals.grown(),
            self._delivered,
            self._runs,
            opened,
            self._closed,
            load,
            limits=self._limits(self._number, whole, now),
        )
        self._number += 1
        self._delivered, self._runs, self._opened, self._closed = {}, {}, {}, []
        return update

    def _keep_bound(self) -> None:
        for untold in (self._delivered, self._runs):
            if len(untold) > MOST_UNTOLD:
                untold.clear()
        if len(self._closed) > MOST_UNTOLD:
            self._closed.clear()
            self.tell_all()
