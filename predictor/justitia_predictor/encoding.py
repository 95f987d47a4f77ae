"""Encodes features as a vector: TF-IDF of the terms that matter, and the numbers, standardised.

A term's weight is (1 + ln count) x idf, as in scikit-learn's TfidfTransformer with `sublinear_tf`, and the terms'
part of the vector has length 1. It is plain numpy, so that predicting needs nothing else.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from justitia_predictor.features import BUCKETS, NUMBERS, Features

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]

LEAST_RUNS_WITH_TERM = 2
MOST_TERMS = 2048
"""The most terms that matter. Terms in the fewest runs are dropped first."""


@dataclass(frozen=True)
class Encoding:
    """An encoding: `buckets` (t), ascending, and their `idf` (t); `mean` and `scale` (n) of the numbers. A vector has t
    + n parts.
    """

    buckets: Indices
    idf: Floats
    mean: Floats
    scale: Floats

    @classmethod
    def fitted(cls, features: list[Features]) -> Self:
        """Fit an encoding to the features of at least one run."""
        document_frequency = np.zeros(BUCKETS)
        for each in features:
            document_frequency[each.pairs[:, 0]] += 1
        common = np.flatnonzero(document_frequency >= min(LEAST_RUNS_WITH_TERM, len(features)))
        if len(common) > MOST_TERMS:
            common = np.sort(common[np.argsort(-document_frequency[common], kind="stable")[:MOST_TERMS]])
        idf = np.log((1 + len(features)) / (1 + document_frequency[common])) + 1
        numbers = np.array([each.numbers for each in features])
        scale = numbers.std(axis=0)
        return cls(
            common.astype(np.int32),
            idf.astype(np.float32),
            numbers.mean(axis=0).astype(np.float32),
            np.where(scale > 0, scale, 1).astype(np.float32),
        )

    @property
    def size(self) -> int:
        """The number of parts of a vector."""
        return len(self.buckets) + len(NUMBERS)

    @cached_property
    def _places(self) -> NDArray[np.int16]:
        """The place of each bucket in a vector; -1 without one."""
        places = np.full(BUCKETS, -1, np.int16)
        places[self.buckets] = np.arange(len(self.buckets))
        return places

    def vector(self, features: Features) -> Floats:
        """Encode features as a vector of `size` parts."""
        found = np.zeros(self.size, np.float32)
        buckets, counts = features.pairs.T
        places = self._places[buckets]
        known = places >= 0
        if known.any():
            places, counts = places[known], counts[known]
            weights = (1 + np.log(counts, dtype=np.float64)) * self.idf[places]
            found[places] = weights / np.linalg.norm(weights)
        found[len(self.buckets) :] = (np.array(features.numbers, np.float32) - self.mean) / self.scale
        return found
