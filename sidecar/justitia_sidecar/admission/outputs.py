"""Predicts how many tokens a sequence will produce: the smaller of `max_tokens` and `OUTPUT_MARGIN` times the running
mean of its application's outputs; `max_tokens` while there is no mean.
"""

import sys
from collections import defaultdict

from justitia_vocabulary.units import ApplicationId, Tokens

OUTPUT_MARGIN = 1.5
_MEAN_MEMORY = 200


class OutputMeans:
    """The running mean of the outputs of each application, over about its last `_MEAN_MEMORY` sequences."""

    def __init__(self) -> None:
        self._mean: dict[ApplicationId, float] = {}
        self._count: defaultdict[ApplicationId, int] = defaultdict(int)

    def observe(self, application: ApplicationId, produced: Tokens) -> None:
        n = self._count[application] = min(self._count[application] + 1, _MEAN_MEMORY)
        mean = self._mean.get(application, 0.0)
        self._mean[application] = mean + (produced - mean) / n

    def mean(self, application: ApplicationId) -> float | None:
        """The application's mean. None before a sequence of it has finished."""
        return self._mean.get(application)

    def predict(self, application: ApplicationId, max_tokens: Tokens) -> Tokens:
        mean = self._mean.get(application)
        return max_tokens if mean is None else min(max_tokens, max(1, round(mean * OUTPUT_MARGIN)))

    def expect(self, application: ApplicationId, asked: Tokens | None) -> Tokens:
        """Expect an output before the request is accepted. Without a mean and without `max_tokens` that is 0."""
        if asked is None and application not in self._mean:
            return 0
        return self.predict(application, asked if asked is not None else sys.maxsize)
