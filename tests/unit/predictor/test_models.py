"""What was exported says what scikit-learn says, and what does not fit together is refused."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.neural_network import MLPRegressor

from justitia_predictor.encoding import Encoding
from justitia_predictor.features import BUCKETS
from justitia_predictor.models import Model
from justitia_predictor.sample import Sample
from justitia_predictor.training import FITS, network_of, trees_of
from support.written_runs import written_runs

SAMPLES = written_runs(60, noise=0.3, seed=1)
OTHERS = written_runs(40, noise=0.3, seed=2)
ENCODING = Encoding.fitted([s.features for s in SAMPLES])
VECTORS, OTHER_VECTORS = (np.stack([ENCODING.vector(s.features) for s in part]) for part in (SAMPLES, OTHERS))
TARGETS = np.array([math.log(s.cost) for s in SAMPLES])


def test_terms_are_weighted_as_by_scikit_learn() -> None:
    def counts(part: Sequence[Sample]) -> NDArray[np.float64]:
        found = np.zeros((len(part), BUCKETS))
        for row, sample in enumerate(part):
            for bucket, count in sample.features.terms.items():
                found[row, bucket] = count
        return found[:, ENCODING.buckets]

    transformer = TfidfTransformer(sublinear_tf=True).fit(counts(SAMPLES))
    wanted = transformer.transform(counts(OTHERS)).toarray()
    assert OTHER_VECTORS[:, : len(ENCODING.buckets)] == pytest.approx(wanted, abs=1e-6)


def test_numbers_are_standardised() -> None:
    numbers = VECTORS[:, len(ENCODING.buckets) :]
    assert numbers.mean(axis=0) == pytest.approx(0, abs=1e-5)
    assert set(numbers.std(axis=0).round(4)) == {0, 1}


def test_a_network_says_what_scikit_learn_says() -> None:
    mean, scale = TARGETS.mean(), TARGETS.std()
    fitted = MLPRegressor(hidden_layer_sizes=(16, 8, 4), alpha=1.0, tol=0.01, solver="lbfgs", random_state=1)
    fitted.fit(VECTORS, (TARGETS - mean) / scale)
    exported = network_of(ENCODING, fitted, mean, scale)
    wanted = fitted.predict(OTHER_VECTORS) * scale + mean
    assert [exported.log_cost(s.features) for s in OTHERS] == pytest.approx(wanted, abs=1e-4)


def test_trees_say_what_scikit_learn_says() -> None:
    fitted = GradientBoostingRegressor(n_estimators=50, subsample=0.7, random_state=1).fit(VECTORS, TARGETS)
    exported = trees_of(ENCODING, fitted)
    assert [exported.log_cost(s.features) for s in OTHERS] == pytest.approx(fitted.predict(OTHER_VECTORS), abs=1e-4)


@pytest.mark.parametrize("kind", FITS)
def test_what_was_fitted_is_sound(kind: str) -> None:
    model = FITS[kind](SAMPLES, 1)
    model.check()
    assert all(math.isfinite(model.log_cost(sample.features)) for sample in OTHERS)


def shortened(model: Model, name: str) -> Model:
    value = getattr(model, name)
    return replace(model, **{name: value[:-1]})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("running-mean", "value"),
        ("prompt-length", "edges"),
        ("prompt-length", "values"),
        ("linear", "weights"),
        ("linear", "intercept"),
        ("mlp", "weights"),
        ("mlp", "biases"),
        ("mlp", "target"),
        *[("boosting", name) for name in ("part", "threshold", "left", "right", "value", "depth", "start")],
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        shortened(FITS[kind](SAMPLES, 1), name).check()


@pytest.mark.parametrize("name", ["roots", "left", "right", "part"])
def test_trees_that_lead_out_of_their_arrays_are_refused(name: str) -> None:
    trees = FITS["boosting"](SAMPLES, 1)
    with pytest.raises(ValueError, match="does not fit"):
        replace(trees, **{name: getattr(trees, name) + 10_000}).check()


@pytest.mark.parametrize("name", ["buckets", "idf", "mean", "scale"])
def test_encodings_that_do_not_fit_are_refused(name: str) -> None:
    linear = FITS["linear"](SAMPLES, 1)
    encoding = replace(ENCODING, **{name: getattr(ENCODING, name)[:-1]})
    with pytest.raises(ValueError, match="does not fit"):
        replace(linear, encoding=encoding).check()
