"""Judges predictions, on runs that were not trained with."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from justitia_predictor.artifact import Errors
from justitia_predictor.models import RunningMean
from justitia_vocabulary.units import KVTokenTime


def errors(predicted: Sequence[KVTokenTime] | NDArray[np.float64], cost: Sequence[KVTokenTime]) -> Errors:
    """The errors on at least two runs. If all predictions or all costs are the same, the rank correlation is 0."""
    guess, truth = np.asarray(predicted, float), np.asarray(cost, float)
    ranked = len(set(guess)) > 1 and len(set(truth)) > 1
    return Errors(
        relative=float(np.mean(np.abs(guess - truth) / truth)),
        rank=float(spearmanr(guess, truth).statistic) if ranked else 0.0,
        log=float(np.mean(np.abs(np.log(guess / truth)))),
    )


def mean_of(parts: Sequence[tuple[int, Errors]]) -> Errors:
    """The mean of the errors of several parts, weighted by their runs. Ranks are compared within a part, because each
    part has a model of its own.
    """
    weights = [count for count, _ in parts]

    def mean(name: str) -> float:
        return float(np.average([getattr(each, name) for _, each in parts], weights=weights))

    return Errors(mean("relative"), mean("rank"), mean("log"))


def loss(own: Errors, mean: Errors) -> float:
    """The loss by which a kind of model is chosen: its errors of size and of order, each in units of the running
    mean's, which has loss 2. An order without any relation to the true one has rank 0, and so has the mean's.
    """
    size = own.relative / mean.relative if mean.relative else 1.0
    return size + 1 - own.rank


def best(by_kind: dict[str, Errors]) -> str:
    """The kind with the least loss; among equals the running mean, then the first."""
    mean = by_kind[RunningMean.kind]
    return min(by_kind, key=lambda kind: (loss(by_kind[kind], mean), kind != RunningMean.kind))
