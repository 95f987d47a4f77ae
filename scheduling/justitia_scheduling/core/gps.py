"""Virtual time of an ideal fluid server that shares its work between runs by weight (GPS).

Notation (Justitia, section IV-B): a run j of weight w arrives at virtual time V(a_j) and leaves the fluid
server at its virtual finish time `F_j = V(a_j) + C_j / w`. Virtual time advances by work delivered, not by
the clock: `dV = delivered / (sum of weights of the runs active in GPS)`, delivered in KV token-time. So tags
and service have one unit, whatever the engine's speed, batching or stalls.

Invariants: V never falls; a run is active exactly while V < F; with no run active V stands still. A run that
has ended with true cost C leaves at V(a) + C/w, possibly later than in the engine.
"""

from dataclasses import dataclass

from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_vocabulary.units import KVTokenTime, RunId


@dataclass(slots=True)
class _Tag:
    start: float
    weight: float
    finish: float
    active: bool = False
    ended: bool = False


class VirtualTime:
    """The clock V and the tags of runs. Amortised O(log runs) for each arrival, change and departure."""

    def __init__(self) -> None:
        self.now: float = 0.0
        self._tags: dict[RunId, _Tag] = {}
        self._active_weight: float = 0.0
        self._departures: LazyHeap[RunId] = LazyHeap()
        """The active runs by their finish."""

    def arrive(self, run: RunId, cost: KVTokenTime, weight: float) -> None:
        """A run enters the fluid server with its estimated cost."""
        self._tags[run] = _Tag(self.now, weight, self.now)
        self.retag(run, cost)

    def start(self, run: RunId) -> float:
        """V(a_j), the virtual time of the run's arrival."""
        return self._tags[run].start

    def finish(self, run: RunId) -> float:
        """F_j, the virtual finish time under the run's present cost."""
        return self._tags[run].finish

    def weight(self, run: RunId) -> float:
        return self._tags[run].weight

    def retag(self, run: RunId, cost: KVTokenTime) -> None:
        """The run's cost is taken to be `cost`: it leaves, stays in or re-enters the fluid server accordingly."""
        tag = self._tags[run]
        if tag.active:
            self._leave(run, tag)
        tag.finish = tag.start + cost / tag.weight
        if tag.finish > self.now:
            tag.active = True
            self._active_weight += tag.weight
            self._departures.put(run, (tag.finish,))

    def lift(self, run: RunId, start: float) -> None:
        """Raise V(a_j) to `start` if it is smaller, as of the next change of the run's cost."""
        tag = self._tags[run]
        tag.start = max(tag.start, start)

    def end(self, run: RunId, cost: KVTokenTime) -> None:
        """The run is over in the engine, with its true cost. It may stay active in the fluid server."""
        self.retag(run, cost)
        self._tags[run].ended = True
        self._drop_if_over(run)

    def advance(self, delivered: KVTokenTime) -> None:
        """The engine delivered that much work."""
        while (run := self._departures.first()) is not None:
            tag = self._tags[run]
            needed = (tag.finish - self.now) * self._active_weight
            if delivered < needed:
                self.now += delivered / self._active_weight
                return
            delivered -= needed
            self.now = tag.finish
            self._leave(run, tag)
            self._drop_if_over(run)

    def clear(self) -> None:
        """No run is open in the engine: forget the fluid server's backlog. V stays where it is."""
        self._tags.clear()
        self._departures.clear()
        self._active_weight = 0.0

    def _leave(self, run: RunId, tag: _Tag) -> None:
        """An active run leaves the fluid server."""
        tag.active = False
        self._departures.remove(run)
        self._active_weight = self._active_weight - tag.weight if self._departures else 0.0

    def _drop_if_over(self, run: RunId) -> None:
        tag = self._tags[run]
        if tag.ended and not tag.active:
            del self._tags[run]
