"""Justitia as in the paper: runs one after the other, in the order in which fair sharing would finish them.

Source: Justitia, section IV. Key of a run: its virtual finish time `F_j = V(a_j) + C_j / weight`, computed once
when the run arrives, C_j predicted (else the application's censored mean), in KV token-time. Never retagged
while it is open, so runs that were guessed too large when nothing was known may wait behind all that come after them
(`runcost.py` has what the default policy does); when it ends, its departure from the fluid server takes its true cost.

Theorem 1(a), fluid server that preempts between runs: every run finishes no later than under GPS.
"""

from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.estimate import FIRST_ESTIMATE, CensoredMean
from justitia_scheduling.core.gps import Tick, VirtualTime, in_kv_token_time
from justitia_scheduling.core.model import Run
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.core.runorder import RunOrder
from justitia_vocabulary.units import KVTokenTime, RunId, Seconds


class Justitia(RunOrder):
    """The key of a run is its virtual finish time F."""

    parts: ClassVar[tuple[str, ...]] = ("fresh", "virtualFinish")
    first_estimate: ClassVar[float] = FIRST_ESTIMATE

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self.virtual_time = VirtualTime()
        self._estimates = CensoredMean(self.first_estimate)

    def run_key(self, run: OpenRun) -> Tick:
        return self.virtual_time.finish(run.id)

    def order_key(self, request: OpenRequest) -> dict[str, float]:
        parts = super().order_key(request)
        return {name: in_kv_token_time(at) if name == "virtualFinish" else at for name, at in parts.items()}

    def report(self) -> PolicyReport:
        return PolicyReport(virtual_time=self.virtual_time.now)

    def predicted(self, run: Run) -> float | None:
        """The run's cost as the host predicted it, None if it did not."""
        return run.predicted_cost

    def on_run_arrived(self, run: OpenRun, now: Seconds) -> None:
        cost = self.predicted(run.run)
        if cost is None:
            cost = self._estimates.estimate(run.run.application)
        self.virtual_time.arrive(run.id, cost, self.weight(run.tenant))

    def on_delivered(self, delivered: dict[RunId, KVTokenTime], now: Seconds) -> None:
        for run, increment in delivered.items():
            self._estimates.attained(self.runs[run], increment)
        self.virtual_time.advance(sum(delivered.values()))

    def on_run_ended(self, run: OpenRun, now: Seconds) -> None:
        self._estimates.ended(run)
        self.virtual_time.end(run.id, run.attained)
        if not self.runs:
            self.virtual_time.clear()
