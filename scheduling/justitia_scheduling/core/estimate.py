"""What is known of a run's cost before it is served: its application's mean, and how good predictions have been.

*Censored mean*, where nothing is predicted:

    (sum of C over the finished runs + sum of what the open runs have attained) / number of finished runs

Counting what the open ones have attained keeps long runs, which finish last, from being forgotten while an
application is young. Where none has finished: the larger of the pool's mean and the largest estimate to which a
run of the application was ever revised. Runs with an aborted request leave no trace. Unit: that in which the policy
counts a run's cost.

*Track record*, where a cost is predicted ("told"). Over the last `REMEMBERED_RUNS` finished runs of the application,
e_told is the mean square of log(cost / what was told), and e_mean that of log(cost / its mean):

    log E = (e_mean log told + e_told log mean) / (e_told + e_mean)

This is the posterior mean if costs are log-normal around the application's mean, and predictions around the cost. So
predictions that come true are used as they are, and others count less against the mean. While no run of an application
has finished, the same is done with the record of its tenant's runs against the pool's mean.
"""

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field

from justitia_scheduling.core.opened import OpenRun
from justitia_vocabulary.units import ApplicationId, KVTokenTime

FIRST_ESTIMATE: KVTokenTime = 1e5
"""Before anything has finished: about a short agent run of 4 calls with 400 prompt and 50 output tokens each."""

REMEMBERED_RUNS = 100
"""Finished runs in an application's track record."""

LEAST_COST: KVTokenTime = 1.0
"""Every run produces a token."""


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

    def of(self, application: ApplicationId) -> KVTokenTime | None:
        """The application's own mean; None until a run of it has finished."""
        return self._applications[application].mean

    @property
    def of_pool(self) -> KVTokenTime:
        """The mean of all applications' runs; a first guess until one has finished."""
        return self._first if self._pool.mean is None else self._pool.mean

    def estimate(self, application: ApplicationId) -> KVTokenTime:
        own = self._applications[application]
        return max(self.of_pool, own.largest_revised) if own.mean is None else own.mean

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


class TrackRecord:
    """How good predictions have been, against a mean that was to be had instead. O(1), and O(`REMEMBERED_RUNS`) when a
    run finishes.
    """

    def __init__(self) -> None:
        self._told: deque[float] = deque(maxlen=REMEMBERED_RUNS)
        self._mean: deque[float] = deque(maxlen=REMEMBERED_RUNS)
        self._of_told = self._of_mean = 0.0

    def __bool__(self) -> bool:
        """Whether a run has finished."""
        return bool(self._told)

    def expected(self, told: KVTokenTime, mean: KVTokenTime) -> KVTokenTime:
        """E of a run that has arrived, from its predicted cost `told` and the `mean`."""
        if not self._of_told:
            return told
        told = max(told, LEAST_COST)
        return told * math.pow(max(mean, LEAST_COST) / told, self._of_told / (self._of_told + self._of_mean))

    def finished(self, told: KVTokenTime, mean: KVTokenTime, cost: KVTokenTime) -> None:
        """A run is over: what was predicted of it, the mean, and its true `cost`."""
        self._told.append(_squared_log(cost, told))
        self._mean.append(_squared_log(cost, mean))
        self._of_told, self._of_mean = sum(self._told), sum(self._mean)


def _squared_log(cost: KVTokenTime, estimate: KVTokenTime) -> float:
    return math.log(max(cost, LEAST_COST) / max(estimate, LEAST_COST)) ** 2


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
