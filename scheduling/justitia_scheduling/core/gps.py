"""Virtual time of an ideal fluid server that shares its work between runs by weight (GPS).

Notation (Justitia, section IV-B): a run j of weight w arrives at virtual time V(a_j) and leaves the fluid
server at its virtual finish time `F_j = V(a_j) + C_j / w`. Virtual time advances by work delivered, not by
the clock: `dV = delivered / (sum of weights of the runs active in GPS)`, delivered in KV token-time. So tags
and service have one unit, whatever the engine's speed, batching or stalls.

Invariants: V never falls; a run is active exactly while V < F; with no run active V stands still. A run that
has ended with true cost C leaves at V(a) + C/w, possibly later than in the engine.

V and tags are whole numbers of ticks, and so are weights, so nothing is lost by rounding however long a server runs: as
floating-point numbers, tags of heavy runs become equal once light runs have moved V far enough.
"""

from dataclasses import dataclass

from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_vocabulary.units import KVTokenTime, RunId

Tick = int
"""Virtual time in parts of a KV token-time per unit of weight: `TICKS` are one."""

TICKS = 2**40
WEIGHT_UNITS = 2**40
"""A weight of 1. The lightest that a resource can give a tenant, 0.001, keeps nine digits."""


def in_kv_token_time(ticks: float) -> float:
    """A virtual time in KV token-time per unit of weight, for people."""
    return ticks / TICKS


@dataclass(slots=True)
class _Tag:
    """`weight` is as given, `units` the same in whole units."""

    start: Tick
    weight: float
    units: int
    finish: Tick
    active: bool = False
    ended: bool = False


class VirtualTime:
    """The clock V and the tags of runs. Amortised O(log runs) for each arrival, change and departure."""

    def __init__(self) -> None:
        self._now: Tick = 0
        self._undelivered = 0
        """Work that was too little to move V by a whole tick, in ticks times units of weight."""
        self._tags: dict[RunId, _Tag] = {}
        self._active: int = 0
        """The weight of the active runs, in units."""
        self._departures: LazyHeap[RunId] = LazyHeap()
        """The active runs by their finish."""

    @property
    def ticks(self) -> Tick:
        """V."""
        return self._now

    @property
    def now(self) -> float:
        """V in KV token-time per unit of weight, for people."""
        return in_kv_token_time(self._now)

    def arrive(self, run: RunId, cost: KVTokenTime, weight: float) -> None:
        """A run enters the fluid server with its estimated cost."""
        self._tags[run] = _Tag(self._now, weight, max(1, round(weight * WEIGHT_UNITS)), self._now)
        self.retag(run, cost)

    def tag(self, run: RunId, work: KVTokenTime) -> Tick:
        """V(a_j) + work / w: when the run would leave the fluid server if that were its cost."""
        tag = self._tags[run]
        return tag.start + _ticks(work / tag.weight)

    def finish(self, run: RunId) -> Tick:
        """F_j, the virtual finish time under the run's present cost."""
        return self._tags[run].finish

    def retag(self, run: RunId, cost: KVTokenTime) -> None:
        """The run's cost is taken to be `cost`: it leaves, stays in or re-enters the fluid server accordingly."""
        tag = self._tags[run]
        if tag.active:
            self._leave(run, tag)
        tag.finish = tag.start + _ticks(cost / tag.weight)
        if tag.finish > self._now:
            tag.active = True
            self._active += tag.units
            self._departures.put(run, (tag.finish,))

    def lift(self, run: RunId, attained: KVTokenTime) -> None:
        """Raise V(a_j) to `V - attained / w` if it is smaller, as of the next change of the run's cost."""
        tag = self._tags[run]
        tag.start = max(tag.start, self._now - _ticks(attained / tag.weight))

    def end(self, run: RunId, cost: KVTokenTime) -> None:
        """The run is over in the engine, with its true cost. It may stay active in the fluid server."""
        self.retag(run, cost)
        self._tags[run].ended = True
        self._drop_if_over(run)

    def advance(self, delivered: KVTokenTime) -> None:
        """The engine delivered that much work."""
        work = _ticks(delivered) * WEIGHT_UNITS + self._undelivered
        while (run := self._departures.first()) is not None:
            tag = self._tags[run]
            needed = (tag.finish - self._now) * self._active
            if work < needed:
                passed, self._undelivered = divmod(work, self._active)
                self._now += passed
                return
            work -= needed
            self._now = tag.finish
            self._leave(run, tag)
            self._drop_if_over(run)
        self._undelivered = 0

    def clear(self) -> None:
        """No run is open in the engine: forget the fluid server's backlog. V stays where it is."""
        self._tags.clear()
        self._departures.clear()
        self._active = self._undelivered = 0

    def _leave(self, run: RunId, tag: _Tag) -> None:
        """An active run leaves the fluid server."""
        tag.active = False
        self._departures.remove(run)
        self._active -= tag.units

    def _drop_if_over(self, run: RunId) -> None:
        tag = self._tags[run]
        if tag.ended and not tag.active:
            del self._tags[run]


def _ticks(amount: float) -> Tick:
    return round(amount * TICKS)
