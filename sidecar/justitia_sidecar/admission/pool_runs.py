"""Runs of this sidecar that its clients named, as runs of the pool: other sidecars may have requests of them, too.

A run has one name in all engines of a pool. What its requests cost anywhere is its cost, it is active while they come
anywhere, and who ends it ends it everywhere. The sidecar in which it was opened first leads it: that one learns from
it, and counts it when it is over.
"""

from collections import OrderedDict
from collections.abc import Callable

from justitia_channel.messages import RunOfPool
from justitia_sidecar.admission.runs import RunKey, TrackedRun
from justitia_sidecar.pool.sharing import Sharing
from justitia_sidecar.pool.updates import RunGrowth
from justitia_vocabulary.units import KVTokenTime, RunId, Seconds, Tokens

MOST_LATE = 10_000
"""The most runs that are over and may still be told what they cost elsewhere."""

Touch = Callable[[TrackedRun, Seconds], None]


def pool_name(run: TrackedRun) -> RunId | None:
    """The run's name in the pool. None for a run of one request, which has none."""
    return None if run.key is None else name_of(run.key)


def name_of(key: RunKey) -> RunId:
    """The name in the pool of the run with that key."""
    return RunId("/".join(key))


class PoolRuns:
    """`touch` is called for a run of which a request was served elsewhere, `close` for one that was ended there."""

    def __init__(self, sharing: Sharing, touch: Touch, close: Touch) -> None:
        self._sharing = sharing
        self._touch = touch
        self._close = close
        self._open: dict[RunId, TrackedRun] = {}
        self._late: OrderedDict[RunId, TrackedRun] = OrderedDict()
        sharing.on_growth = self._grown

    def opened(self, run: TrackedRun) -> None:
        if (name := pool_name(run)) is not None:
            self._open[name] = run
            self._late.pop(name, None)
            self._sharing.opened(RunOfPool(name, run.tenant, run.application.id, run.predicted_cost))

    def ended(self, run: TrackedRun) -> None:
        name = pool_name(run)
        if name is None:
            return
        run.led_elsewhere = not self._sharing.leads(name)
        if run.aborted:
            self._sharing.grew(name, RunGrowth(aborted=True))
        if self._open.get(name) is run:
            del self._open[name]
            self._late[name] = run
            if len(self._late) > MOST_LATE:
                self._late.popitem(last=False)
        self._sharing.closed(name)

    def ended_by_client(self, run: TrackedRun) -> None:
        if (name := pool_name(run)) is not None:
            self._sharing.grew(name, RunGrowth(ended=True))

    def open_elsewhere(self, key: RunKey) -> bool:
        return self._sharing.open_elsewhere(name_of(key))

    def end_elsewhere(self, key: RunKey) -> None:
        """End a run that is open in other sidecars alone, if there is one."""
        if self.open_elsewhere(key):
            self._sharing.grew(name_of(key), RunGrowth(ended=True))

    def costs(self, run: TrackedRun, more: KVTokenTime, context: Tokens) -> None:
        """A request of the run has cost so much more here, where the cache has so many tokens of its context."""
        if (more or context) and (name := pool_name(run)) is not None:
            self._sharing.grew(name, RunGrowth(cost=more, context=context))

    def _grown(self, name: RunId, growth: RunGrowth, now: Seconds) -> None:
        run = self._open.get(name) or self._late.get(name)
        if run is None:
            return
        run.cost += growth.cost
        run.aborted |= growth.aborted
        if name in self._open:
            self._touch(run, now)
            if growth.ended:
                self._close(run, now)
