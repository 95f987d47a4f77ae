"""Which runs of tiered Justitia are a single boosted request, and Phi of each: gamma-boost inside the shares.

An application that declares an objective for single requests has the host mark them as boosted. Where a boosted
request is all that its run ever asked for, the run goes before its application's others, by

    Phi = arrival - b_gamma(work)        smaller is served earlier (`boost.py`)

with the work that the request is known to need, as UniBoost counts it (`uniboost.py`), at its arrival and at each
preemption. The boost lasts as long as the request asks for, which is the objective's bound: who is late already gains
nothing, and would take from those that can still be in time. A run that lapsed, or that asks for more, is a run like
others from then on. Which tenants, and which of a tenant's
applications, may be served is decided before, so a tenant pays for its tail with its own service.
"""

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_scheduling.core.model import Step
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.policies.boost import Boosting, signal
from justitia_scheduling.policies.uniboost import quantised
from justitia_vocabulary.units import RunId, Seconds


class BoostedRuns:
    """Phi of open runs that are a single boosted request. O(log runs) for each event. Nothing is observed or reported
    before a boosted request has come.
    """

    def __init__(self, cost_model: CostModel) -> None:
        self.boosting = Boosting(cost_model)
        self._phi: dict[RunId, Seconds | None] = {}
        """None: a run like others."""
        self._lapses: LazyHeap[RunId] = LazyHeap()
        """Boosted runs by the moment at which that ends."""
        self._seen = False

    def get(self, run: RunId) -> Seconds | None:
        """Phi of an open run; None for one like others."""
        return self._phi.get(run)

    def waits(self, request: OpenRequest, running: int) -> bool:
        """A request begins to wait while so many run. True if its run was boosted and is not any more."""
        run, lasts = request.run.id, request.request.boosted_for
        new = run not in self._phi
        if (new and lasts) or (request.preemptions and self._phi[run] is not None):
            tokens = quantised(max(signal(request), 1))
            self._phi[run] = self.boosting.arrival(request, self.boosting.work(request, tokens, running))
            if new and lasts and run not in self._lapses:
                self._seen = True
                self._lapses.put(run, (request.arrival + lasts,))
            return False
        was_boosted = not request.preemptions and self._phi.get(run) is not None
        if was_boosted:
            self._like_others(run)
        elif new:
            self._phi[run] = None
        return was_boosted

    def lapsed(self, now: Seconds) -> list[RunId]:
        """The open runs whose boost has ended since this was last asked."""
        ended = []
        while (run := self._lapses.first()) is not None and self._lapses.key(run)[0] <= now:
            self._like_others(run)
            ended.append(run)
        return ended

    def _like_others(self, run: RunId) -> None:
        self._phi[run] = None
        self._lapses.remove(run)

    def stepped(self, step: Step) -> None:
        if self._seen:
            self.boosting.token_time.observe(step)

    def closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        """The request is over, or taken back: then it may arrive again as all that its run asks for. Its boost ends
        when it would have ended.
        """
        if finished and request.request.boosted_for:
            self.boosting.tail.observe(now - request.arrival)
        run = request.run.id
        if not request.begun and self._phi.get(run) is not None:
            del self._phi[run]

    def ended(self, run: RunId) -> None:
        """The run is over."""
        self._phi.pop(run, None)
        if run in self._lapses:
            self._lapses.remove(run)

    def report(self, running: int) -> PolicyReport:
        """Gamma and what tokens take, where something is boosted."""
        return self.boosting.report(running) if self._seen else PolicyReport()
