"""How good an application's predictors are, on the runs of this pod: sums of errors, and which runs are a canary's.

The running mean stands for what can be predicted of a run without a model: the geometric mean of the costs of the
application's runs that were over, here, when it began. Errors are of ln C, and an arithmetic mean, which the largest
runs decide, would lose there against a model that tells nothing. Count and sum of ln C are all that is kept, in memory:
a pod that starts begins anew.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from justitia_api.config import LearningConfig
from justitia_api.status import ErrorSums
from justitia_vocabulary.units import KVTokenTime

MOST_ERROR = 5.0
"""Of |ln(predicted / cost)|, a factor of 150: one run says no more than that."""
HALF_WINDOW = 100
"""Runs. Drift is looked for over the last 100 at least and 200 at most: two halves, of which the older goes whole."""

Predicted = Mapping[str, KVTokenTime]
"""By version."""


def error_of(predicted: KVTokenTime, cost: KVTokenTime) -> float:
    """Both are more than 0."""
    return min(abs(math.log(predicted / cost)), MOST_ERROR)


def in_canary(learning: LearningConfig, run: str) -> bool:
    """Whether a run is told the candidate's prediction. All pods agree by its id, and a larger share keeps the runs of
    a smaller one.
    """
    # A client's id comes from JSON too, and may hold what is no text.
    named = f"{learning.name}/{run}".encode(errors="surrogatepass")
    place = int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big") % 100
    return place < learning.canary_percent


class PairedErrors:
    """A model's errors beside those of what it is compared with, on the same runs."""

    def __init__(self) -> None:
        self.since_start = ErrorSums()
        self._older = ErrorSums()
        self._newer = ErrorSums()

    def add(self, error: float, baseline: float) -> None:
        run = ErrorSums(runs=1, error=error, baseline=baseline, squared_difference=(baseline - error) ** 2)
        self.since_start += run
        if self._newer.runs == HALF_WINDOW:
            self._older, self._newer = self._newer, ErrorSums()
        self._newer += run

    @property
    def recent(self) -> ErrorSums:
        return self._older + self._newer


@dataclass(frozen=True, slots=True)
class Begun:
    """What a run is compared by, as it was when the run began: whatever is in force when it ends, nothing is added to
    sums that began later. `mean` is the running mean, None where no run was over.
    """

    mean: KVTokenTime | None
    version: str | None
    candidate: str | None
    of_version: PairedErrors
    of_candidate: PairedErrors


class Evidence:
    """Of one application's predictors."""

    def __init__(self) -> None:
        self._runs = 0
        self._log_cost = 0.0
        self._version: str | None = None
        self._candidate: str | None = None
        self.of_version = PairedErrors()
        self.of_candidate = PairedErrors()

    def configure(self, learning: LearningConfig) -> None:
        """Sums begin anew for a version that is new in its role, or is compared with another one."""
        if learning.version != self._version:
            self.of_version, self.of_candidate = PairedErrors(), PairedErrors()
        elif learning.candidate != self._candidate:
            self.of_candidate = PairedErrors()
        self._version, self._candidate = learning.version, learning.candidate

    def begin(self) -> Begun:
        mean = math.exp(self._log_cost / self._runs) if self._runs else None
        return Begun(mean, self._version, self._candidate, self.of_version, self.of_candidate)

    def end(self, begun: Begun, predicted: Predicted, cost: KVTokenTime) -> None:
        """A run is over that was not aborted and cost something."""
        self._runs += 1
        self._log_cost += math.log(cost)
        told = predicted.get(begun.version) if begun.version else None
        if told is not None and begun.mean is not None:
            begun.of_version.add(error_of(told, cost), error_of(begun.mean, cost))
        compared_with = begun.mean if told is None else told
        candidates = predicted.get(begun.candidate) if begun.candidate else None
        if candidates is not None and compared_with is not None:
            begun.of_candidate.add(error_of(candidates, cost), error_of(compared_with, cost))
