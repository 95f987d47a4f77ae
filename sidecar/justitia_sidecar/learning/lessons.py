"""Decides for which runs a lesson is kept, from a run's first request until what it cost is settled.

A lesson is what was seen of the run's first request. Its bytes are on the account of the run's tenant: while the run is
open, what tenants hold elsewhere may take a lesson's place, and the run is forgotten. Once the run is over its lesson
stays until it is settled, and beyond `MOST_ENDED` the oldest goes. A run that is forgotten is served as any other.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.learning.prediction import RunPrediction
from justitia_sidecar.limits.held import HeldBytes, HeldKind, Holding
from justitia_vocabulary.units import Seconds, TenantId

MOST_ENDED = 10_000
"""The most runs that are over and not settled yet."""
SETTLE: Seconds = 2.0
"""The time after a run's end until it is settled: the plug-in may report its last requests after their answers."""


@dataclass(frozen=True, slots=True)
class _Ended:
    at: Seconds
    run: TrackedRun
    prediction: RunPrediction
    holding: Holding


class Lessons:
    """The lessons of one pod. `on_forgotten` hears of each open run that is forgotten."""

    def __init__(self, held: HeldBytes, on_forgotten: Callable[[], None]) -> None:
        self._held = held
        self._on_forgotten = on_forgotten
        self._open: dict[TrackedRun, tuple[RunPrediction, Holding]] = {}
        self._ended: deque[_Ended] = deque()

    def run_began(self, run: TrackedRun, prediction: RunPrediction) -> None:
        """Keep what was seen of a run's first request, unless another request of the run was faster or there is no room
        for it.
        """
        if run in self._open:
            return
        holding = Holding(TenantId(run.application.tenant), HeldKind.LESSON, lambda: self._forget(run))
        self._open[run] = prediction, holding
        if not self._held.put(holding, prediction.size):
            self._forget(run)

    def run_ended(self, run: TrackedRun, now: Seconds) -> None:
        if (opened := self._open.pop(run, None)) is None:
            return
        prediction, holding = opened
        self._held.pin(holding)
        self._ended.append(_Ended(now, run, prediction, holding))
        if len(self._ended) > MOST_ENDED:
            self._held.put(self._ended.popleft().holding, 0)

    def run_left(self, run: TrackedRun) -> None:
        """The run is over here, and another sidecar learns from it."""
        if (opened := self._open.pop(run, None)) is not None:
            self._held.put(opened[1], 0)

    def settled(self, before: Seconds) -> Iterator[tuple[TrackedRun, RunPrediction]]:
        """Let go of the runs that were over before then, each as it is taken."""
        while self._ended and self._ended[0].at <= before:
            ended = self._ended.popleft()
            self._held.put(ended.holding, 0)
            yield ended.run, ended.prediction

    def _forget(self, run: TrackedRun) -> None:
        del self._open[run]
        self._on_forgotten()
