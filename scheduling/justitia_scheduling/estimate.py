"""The cost of a run that nothing predicted: its application's censored mean.

    (sum of C over the finished runs + sum of what the open runs have attained) / number of finished runs

Counting what the open ones have attained keeps long runs, which finish last, from being forgotten while an
application is young. Where none has finished: the larger of the pool's mean and the application's largest
revised estimate of an open run. Runs with an aborted request leave no trace. Unit: that of what is told, KV
token-time unless a policy says otherwise.

:class:`OutputMean` is the same question for one request: the mean output of the application's finished requests,
else the pool's. Unit: tokens.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from justitia_scheduling.model import ApplicationId, KVTokenTime, RunId, Tokens
from justitia_scheduling.policy import OpenRun

FIRST_ESTIMATE: KVTokenTime = 1e5
"""Before anything has finished: about a short agent run of 4 calls with 400 prompt and 50 output tokens each."""


@dataclass(slots=True)
class _Sums:
    finished: int = 0
    total: KVTokenTime = 0.0
    revised: dict[RunId, KVTokenTime] = field(default_factory=dict)

    @property
    def mean(self) -> KVTokenTime | None:
        return self.total / self.finished if self.finished else None


class CensoredMean:
    """Running estimate for each application. Every operation is O(1) once a run of the application has finished."""

    def __init__(self, first: float = FIRST_ESTIMATE) -> None:
        self._first = first
        self._applications: defaultdict[ApplicationId, _Sums] = defaultdict(_Sums)
        self._pool = _Sums()
        self._open: defaultdict[RunId, float] = defaultdict(float)

    def estimate(self, application: ApplicationId) -> KVTokenTime:
        own = self._applications[application]
        if own.mean is not None:
            return own.mean
        pool = self._first if self._pool.mean is None else self._pool.mean
        return max(pool, *own.revised.values()) if own.revised else pool

    def attained(self, run: OpenRun, increment: KVTokenTime) -> None:
        self._applications[run.run.application].total += increment
        self._pool.total += increment
        self._open[run.id] += increment

    def revised(self, run: OpenRun, estimate: KVTokenTime) -> None:
        self._applications[run.run.application].revised[run.id] = estimate

    def ended(self, run: OpenRun) -> KVTokenTime:
        """The run is over; returns what it attained in all."""
        attained = self._open.pop(run.id, 0.0)
        own = self._applications[run.run.application]
        own.revised.pop(run.id, None)
        for sums in (own, self._pool):
            if run.aborted:
                sums.total -= attained
            elif attained:
                sums.finished += 1
        return attained


FIRST_OUTPUT: Tokens = 100
"""Before anything has finished."""


@dataclass(slots=True)
class _Outputs:
    finished: int = 0
    total: Tokens = 0


class OutputMean:
    """Running mean of output lengths for each application. Every operation is O(1)."""

    def __init__(self) -> None:
        self._applications: defaultdict[ApplicationId, _Outputs] = defaultdict(_Outputs)
        self._pool = _Outputs()

    def estimate(self, application: ApplicationId) -> float:
        for outputs in (self._applications[application], self._pool):
            if outputs.finished:
                return outputs.total / outputs.finished
        return float(FIRST_OUTPUT)

    def finished(self, application: ApplicationId, produced: Tokens) -> None:
        for outputs in (self._applications[application], self._pool):
            outputs.finished += 1
            outputs.total += produced
