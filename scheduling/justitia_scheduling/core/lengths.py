"""How long a request's output will be: what was predicted, else its application's mean.

The mean is over the application's finished requests, before the first of them over those of all applications, and
`FIRST_OUTPUT` before anything has finished. Unit: output tokens.
"""

from collections import defaultdict
from dataclasses import dataclass

from justitia_scheduling.core.opened import OpenRequest
from justitia_vocabulary.units import ApplicationId, Tokens

FIRST_OUTPUT = 100.0


@dataclass(slots=True)
class _Sums:
    finished: int = 0
    produced: Tokens = 0


class OutputLengths:
    """Predictions, and the means that stand in for them. Every operation is O(1)."""

    def __init__(self) -> None:
        self._applications: defaultdict[ApplicationId, _Sums] = defaultdict(_Sums)
        self._pool = _Sums()

    def predicted(self, request: OpenRequest) -> float:
        if (told := request.request.predicted_output) is not None:
            return told
        for sums in (self._applications[request.run.run.application], self._pool):
            if sums.finished:
                return sums.produced / sums.finished
        return FIRST_OUTPUT

    def finished(self, request: OpenRequest) -> None:
        for sums in (self._applications[request.run.run.application], self._pool):
            sums.finished += 1
            sums.produced += request.produced
