"""Decides how good an application's predictors are, by the runs of this pod, and which runs are a canary's.

A model is compared with its baseline on the same runs, by sums of errors |ln(predicted / cost)|. A version's baseline
is the running mean; a candidate's is the version, or the running mean where no version predicted. A run counts for what
was in effect when it began, whenever it ends.

The running mean stands for what can be predicted of a run without a model: the geometric mean of the costs of the
application's runs that were over, here, when it began. Errors are of ln C, and an arithmetic mean, which the largest
runs decide, would lose there against a model that predicts nothing. Only the count and the sum of ln C are kept, in
memory: a pod that starts begins from zero.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from justitia_api.config import LearningConfig
from justitia_api.status import ErrorSums
from justitia_vocabulary.units import KVTokenTime

MOST_ERROR = 5.0
"""The largest |ln(predicted / cost)| that counts, a factor of 150, so that one run decides nothing."""
HALF_WINDOW = 100
"""Runs in half a window. Drift is looked for over the last 100 to 200: the older half is dropped as a whole."""

CostByVersion = Mapping[str, KVTokenTime]
"""What each model predicts of a run, by its version."""


def error_of(predicted: KVTokenTime, cost: KVTokenTime) -> float:
    """The error of one prediction. Both costs are more than 0."""
    return min(abs(math.log(predicted / cost)), MOST_ERROR)


def in_canary(learning: LearningConfig, run: str) -> bool:
    """Whether the candidate's prediction counts for a run. All pods agree by its id, and a larger share keeps the runs
    of a smaller one.
    """
    # A client's id may come from JSON, and so may hold surrogates, which are no text.
    named = f"{learning.name}/{run}".encode(errors="surrogatepass")
    place = int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big") % 100
    return place < learning.canary_percent


class PairedErrors:
    """A model's errors beside its baseline's, on the same runs."""

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
    """What a run's predictions are compared by, as it was when the run began. Its errors go to the sums of that time:
    sums that began later are not touched. `mean` is the running mean, None where no run was over.
    """

    mean: KVTokenTime | None
    version: str | None
    candidate: str | None
    version_errors: PairedErrors
    candidate_errors: PairedErrors


class Evidence:
    """The sums of one application."""

    def __init__(self) -> None:
        self._runs = 0
        self._log_cost = 0.0
        self._version: str | None = None
        self._candidate: str | None = None
        self.version_errors = PairedErrors()
        self.candidate_errors = PairedErrors()

    def configure(self, learning: LearningConfig) -> None:
        """Start the sums again for a version that is new in its role, or has another baseline."""
        if learning.version != self._version:
            self.version_errors, self.candidate_errors = PairedErrors(), PairedErrors()
        elif learning.candidate != self._candidate:
            self.candidate_errors = PairedErrors()
        self._version, self._candidate = learning.version, learning.candidate

    def begin(self) -> Begun:
        """What a run that begins at this moment will be compared by."""
        mean = math.exp(self._log_cost / self._runs) if self._runs else None
        return Begun(mean, self._version, self._candidate, self.version_errors, self.candidate_errors)

    def end(self, begun: Begun, predicted: CostByVersion, cost: KVTokenTime) -> None:
        """Count a run that is over, was not aborted and cost something."""
        self._runs += 1
        self._log_cost += math.log(cost)
        by_version = predicted.get(begun.version) if begun.version else None
        if by_version is not None and begun.mean is not None:
            begun.version_errors.add(error_of(by_version, cost), error_of(begun.mean, cost))
        baseline = begun.mean if by_version is None else by_version
        by_candidate = predicted.get(begun.candidate) if begun.candidate else None
        if by_candidate is not None and baseline is not None:
            begun.candidate_errors.add(error_of(by_candidate, cost), error_of(baseline, cost))
