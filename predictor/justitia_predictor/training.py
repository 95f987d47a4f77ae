"""Trains an artifact from samples: each kind of model is tried on held-out runs, and the best is trained with all.

Targets are ln C, standardised for the network: C spans four powers of ten, and with squares of plain errors only the
largest runs would count (Justitia trains on samples of about 100 runs, with MSE and L2).
"""

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from justitia_predictor.artifact import Artifact, Errors, Provenance
from justitia_predictor.encoding import Encoding, Floats
from justitia_predictor.evaluation import best, errors, mean_of
from justitia_predictor.models import PROMPT, Linear, Model, Network, PromptLength, RunningMean, Trees
from justitia_predictor.sample import MOST_SAMPLES, Sample, data_hash

LEAST_SAMPLES = 10
FOLDS = 5
PROMPT_CLASSES = 5
LEAST_WIDTH, MOST_WIDTH = 16, 128
TERMS_PER_UNIT = 4
"""Distinct terms of a mean input for each unit of the network's first layer."""
PENALTIES = (0.004, 0.012, 0.024, 0.04)
"""L2 penalties of the network's weights, one after the other, for each run that is learned from. scikit-learn's penalty
is for all runs together, so a constant one would mean less for each run, the more there are.
"""
STEPS = 50
"""Steps of the optimiser with each penalty."""
MOST_BEGINNINGS = 8
LOSS_OF_MEAN = 0.495
"""The loss of a network that predicts the mean whatever its input: nearly half the variance of standardised targets.
The last penalty alone would pull most networks there; the first does so now and then, and that network is begun again.
"""


class TooFewSamplesError(Exception):
    """There are too few samples to learn from."""


def train(application: str, samples: Sequence[Sample], seed: int = 0) -> Artifact:
    """Train the best model for an application, from its runs, oldest first. Raises TooFewSamplesError."""
    samples = [s for s in samples if s.cost > 0][-MOST_SAMPLES:]
    if len(samples) < LEAST_SAMPLES:
        raise TooFewSamplesError(f"{application} has {len(samples)} finished runs: training needs {LEAST_SAMPLES}")
    by_kind = {kind: held_out_errors(kind, samples, seed) for kind in FITS}
    return fitted(best(by_kind), application, samples, seed, by_kind)


def fitted(
    kind: str, application: str, samples: Sequence[Sample], seed: int, by_kind: Mapping[str, Errors] | None = None
) -> Artifact:
    """Train a model of this kind. `by_kind` are the errors of all kinds that were tried, if any were."""
    logs = _targets(samples)
    about = Provenance(
        kind, application, len(samples), data_hash(samples), float(logs.min()), float(logs.max()), dict(by_kind or {})
    )
    # The matrices are small: threads would spend more time waiting for each other than computing.
    with threadpool_limits(1):
        return Artifact(FITS[kind](samples, seed), about)


def held_out_errors(kind: str, samples: Sequence[Sample], seed: int) -> Errors:
    """The errors of a kind of model, where a model that was trained without a run predicts it."""
    found = []
    for trained, held in KFold(FOLDS, shuffle=True, random_state=seed).split(samples):
        artifact = fitted(kind, "", [samples[i] for i in trained], seed)
        predicted = [artifact.predict(samples[i].features) for i in held]
        found.append((len(held), errors(predicted, [samples[i].cost for i in held])))
    return mean_of(found)


def fit_running_mean(samples: Sequence[Sample], seed: int) -> RunningMean:
    return RunningMean(_floats([math.log(np.mean([s.cost for s in samples]))]))


def fit_prompt_length(samples: Sequence[Sample], seed: int) -> PromptLength:
    prompts = np.array([s.features.numbers[PROMPT] for s in samples], np.float32)
    logs = _targets(samples)
    edges = np.unique(np.quantile(prompts, np.linspace(0, 1, PROMPT_CLASSES + 1)[1:-1]))
    classes = np.searchsorted(edges, prompts)
    values = [logs[classes == k].mean() if np.any(classes == k) else logs.mean() for k in range(len(edges) + 1)]
    return PromptLength(_floats(edges), _floats(values))


def fit_linear(samples: Sequence[Sample], seed: int) -> Linear:
    encoding, vectors = _encoded(samples)
    ridge = RidgeCV(alphas=np.logspace(-2, 3, 11)).fit(vectors, _targets(samples))
    return Linear(encoding, _floats(ridge.coef_), _floats([ridge.intercept_]))


def fit_network(samples: Sequence[Sample], seed: int) -> Network:
    encoding, vectors = _encoded(samples)
    logs = _targets(samples)
    mean, scale = logs.mean(), logs.std() or 1.0
    standardised = (logs - mean) / scale
    terms = float(np.mean([len(s.features.pairs) for s in samples]))
    width = int(np.clip(terms / TERMS_PER_UNIT, LEAST_WIDTH, MOST_WIDTH))
    layers = (width, width // 2, width // 4)
    drawn = np.random.RandomState(seed)
    with warnings.catch_warnings():
        # Training stops early on purpose: a network that fits few samples exactly predicts others worse.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(MOST_BEGINNINGS):
            network = MLPRegressor(
                hidden_layer_sizes=layers, solver="lbfgs", max_iter=STEPS, warm_start=True, random_state=drawn
            )
            network.set_params(alpha=PENALTIES[0] * len(samples)).fit(vectors, standardised)
            if network.loss_ < LOSS_OF_MEAN:
                break
        for penalty in PENALTIES[1:]:
            simpler = copy.deepcopy(network).set_params(alpha=penalty * len(samples)).fit(vectors, standardised)
            if simpler.loss_ >= LOSS_OF_MEAN:
                break
            network = simpler
    return network_of(encoding, network, mean, scale)


def fit_trees(samples: Sequence[Sample], seed: int) -> Trees:
    encoding, vectors = _encoded(samples)
    boosting = GradientBoostingRegressor(
        n_estimators=100, max_depth=3, learning_rate=0.05, subsample=0.7, max_features=0.3, random_state=seed
    )
    return trees_of(encoding, boosting.fit(vectors, _targets(samples)))


def network_of(encoding: Encoding, network: MLPRegressor, mean: float, scale: float) -> Network:
    """The network that was fitted to standardised targets, as plain arrays."""
    weights, biases = tuple(map(_floats, network.coefs_)), tuple(map(_floats, network.intercepts_))
    return Network(encoding, weights, biases, _floats([mean, scale]))


def trees_of(encoding: Encoding, boosting: GradientBoostingRegressor) -> Trees:
    trees = [each.tree_ for each in boosting.estimators_[:, 0]]
    sizes = [tree.node_count for tree in trees]
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    own = np.concatenate([np.arange(size) for size in sizes])
    offset = np.repeat(first, sizes)

    def joined(name: str) -> NDArray[np.float64]:
        return np.concatenate([getattr(tree, name) for tree in trees])

    leaf = joined("children_left") < 0
    return Trees(
        encoding,
        roots=first.astype(np.int32),
        part=np.where(leaf, 0, joined("feature")).astype(np.int32),
        threshold=_floats(np.where(leaf, 0, joined("threshold"))),
        left=(np.where(leaf, own, joined("children_left")) + offset).astype(np.int32),
        right=(np.where(leaf, own, joined("children_right")) + offset).astype(np.int32),
        value=_floats(boosting.learning_rate * joined("value").reshape(-1)),
        depth=np.array([max(tree.max_depth for tree in trees)], np.int32),
        start=_floats(boosting.init_.constant_.reshape(-1)),
    )


Fit = Callable[[Sequence[Sample], int], Model]

FITS: dict[str, Fit] = {
    RunningMean.kind: fit_running_mean,
    PromptLength.kind: fit_prompt_length,
    Linear.kind: fit_linear,
    Network.kind: fit_network,
    Trees.kind: fit_trees,
}


def _encoded(samples: Sequence[Sample]) -> tuple[Encoding, Floats]:
    features = [s.features for s in samples]
    encoding = Encoding.fitted(features)
    return encoding, np.stack([encoding.vector(each) for each in features])


def _targets(samples: Sequence[Sample]) -> NDArray[np.float64]:
    return np.log([s.cost for s in samples])


def _floats(values: object) -> Floats:
    return np.asarray(values, np.float32)
