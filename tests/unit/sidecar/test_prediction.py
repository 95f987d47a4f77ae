"""What is known of a run from its first request, and which model's prediction counts."""

from typing import Any

import pytest

from justitia_predictor.features import Features
from justitia_sidecar.learning.prediction import MOST_FEATURE_BYTES, FirstLook, look_at
from support.failing_model import FailingModel
from support.learning_room import FIRST, WRITTEN, prediction, trained

A, B = "a" * 64, "b" * 64


def test_every_model_predicts_by_the_features_of_the_request() -> None:
    models = {A: trained(), B: trained(WRITTEN[1:])}
    found = look_at(FIRST, models)
    features = Features.of(FIRST)
    wanted = {version: model.predict(features) for version, model in models.items()}
    assert found == FirstLook(features.packed, wanted, ())


@pytest.mark.parametrize("failing", [A, B])
def test_a_model_that_fails_takes_nothing_from_the_other(failing: str) -> None:
    models = {A: trained(), B: trained()} | {failing: FailingModel()}
    found = look_at(FIRST, models)
    assert found.by_version.keys() == {A, B} - {failing}
    assert found.features == Features.of(FIRST).packed
    assert [type(error) for error in found.errors] == [FloatingPointError]


@pytest.mark.parametrize(
    ("percent", "by_version", "counts"),
    [
        (0, {A: 1.0, B: 2.0}, 1.0),
        (100, {A: 1.0, B: 2.0}, 2.0),
        (100, {A: 1.0}, 1.0),
        (0, {B: 2.0}, None),
        (0, {}, None),
    ],
    ids=[
        "outside the canary the version's",
        "in the canary the candidate's",
        "in the canary the version's where the candidate has none",
        "never the candidate's outside its canary",
        "none before the first look",
    ],
)
def test_one_prediction_counts(percent: int, by_version: dict[str, float], counts: float | None) -> None:
    found = prediction(version=A, candidate=B, canary_percent=percent)
    found.by_version = by_version
    assert found.predicted_cost == counts


@pytest.mark.parametrize(("keeps", "text"), [(False, None), (True, FIRST.text)])
def test_text_is_kept_only_where_the_application_asks_for_it(keeps: bool, text: bytes | None) -> None:
    assert prediction(keep_text=keeps).text == text


def test_features_that_are_not_made_count_with_the_most_they_can_take() -> None:
    waiting: Any = prediction(features=None, keep_text=True)
    assert waiting.size == MOST_FEATURE_BYTES + len(FIRST.text)
    waiting.complete(look_at(FIRST, {}))
    assert waiting.size == len(Features.of(FIRST).packed) + len(FIRST.text)
    assert waiting.size < MOST_FEATURE_BYTES
