"""The cost of a run that nothing predicted: its application's censored mean.

    (sum of C over the finished runs + sum of what the open runs have attained) / number of finished runs

Counting what the open ones have attained keeps long runs, which finish last, from being forgotten while an
application is young. Where none has finished: the larger of the pool's mean and the largest estimate to which a
run of the application was ever revised. Runs with an aborted request leave no trace. Unit: that in which the policy
counts a run's cost.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from justitia_scheduling.model import ApplicationId, KVTokenTime
from justitia_scheduling.policy import OpenRun

FIRST_ESTIMATE: KVTokenTime = 1e5
"""Before anything has finished: about a short agent run of 4 calls with 400 prompt and 50 output tokens each."""


@dataclass(slots=True)
class _Sums:
    finished: int = 0
    total: KVTokenTime = 0.0
    largest_revised: float = 0.0

    @property
    def mean(self) -> KVTokenTime | None:
        return self.total / self.finished if self.finished else None


class CensoredMean:
    """Running estimate for each application. Every operation is O(1)."""

    def __init__(self, first: float = FIRST_ESTIMATE) -> None:
        self._first = first
        self._applications: defaultdict[ApplicationId, _Sums] = defaultdict(_Sums)
        self._pool = _Sums()

    def estimate(self, application: ApplicationId) -> KVTokenTime:
        own = self._applications[application]
        if own.mean is not None:
            return own.mean
        pool = self._first if self._pool.mean is None else self._pool.mean
        return max(pool, own.largest_revised)

    def attained(self, run: OpenRun, increment: KVTokenTime) -> None:
        self._applications[run.run.application].total += increment
        self._pool.total += increment

    def revised(self, run: OpenRun, estimate: KVTokenTime) -> None:
        own = self._applications[run.run.application]
        own.largest_revised = max(own.largest_revised, estimate)

    def ended(self, run: OpenRun) -> None:
        own = self._applications[run.run.application]
        for sums in (own, self._pool):
            if run.aborted:
                sums.total -= run.attained
            elif run.attained:
                sums.finished += 1


@dataclass(slots=True)
class Ratio:
    """Running ratio of two sums: the application's, else the pool's, else 0."""

    _upper: defaultdict[ApplicationId | None, float] = field(default_factory=lambda: defaultdict(float))
    _lower: defaultdict[ApplicationId | None, float] = field(default_factory=lambda: defaultdict(float))

    def add_upper(self, application: ApplicationId, amount: float) -> None:
        self._upper[application] += amount
        self._upper[None] += amount

    def add_lower(self, application: ApplicationId, amount: float) -> None:
        self._lower[application] += amount
        self._lower[None] += amount

    def of(self, application: ApplicationId) -> float:
        for key in (application, None):
            if self._lower[key]:
                return self._upper[key] / self._lower[key]
        return 0.0
