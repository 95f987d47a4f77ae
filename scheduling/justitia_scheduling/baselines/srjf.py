"""Shortest remaining job first, by run: low mean completion time, and large runs may starve.

Source: Justitia, section V-A (baseline of that name). Key of a run: `max(1, C - attained)`, C predicted when the
run arrives (else the application's censored mean), attained what has been delivered to it, in KV token-time.
Running requests are not preempted for a smaller key. The key of a run changes only when that run is served.
"""

from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.estimate import CensoredMean
from justitia_scheduling.core.opened import OpenRun
from justitia_scheduling.core.runorder import RunOrder
from justitia_vocabulary.units import KVTokenTime, RunId, Seconds


class SRJF(RunOrder):
    """The key of a run is its remaining cost."""

    parts: ClassVar[tuple[str, ...]] = ("fresh", "remainingCost")

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._estimates = CensoredMean()
        self._cost: dict[RunId, KVTokenTime] = {}

    def run_key(self, run: OpenRun) -> float:
        return max(1.0, self._cost[run.id] - run.attained)

    def on_run_arrived(self, run: OpenRun, now: Seconds) -> None:
        predicted = run.run.predicted_cost
        self._cost[run.id] = self._estimates.estimate(run.run.application) if predicted is None else predicted

    def on_delivered(self, delivered: dict[RunId, KVTokenTime], now: Seconds) -> None:
        for run_id, increment in delivered.items():
            run = self.runs[run_id]
            self._estimates.attained(run, increment)
            self.rekey(run)

    def on_run_ended(self, run: OpenRun, now: Seconds) -> None:
        del self._cost[run.id]
        self._estimates.ended(run)
