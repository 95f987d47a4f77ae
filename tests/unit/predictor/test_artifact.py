"""Artifacts come back as they went, and what is not one says so and does nothing else."""

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save

from justitia_predictor.artifact import MOST_BYTES, Artifact, ArtifactError, Provenance, digest
from justitia_predictor.features import FEATURES_VERSION
from justitia_predictor.training import FITS, train
from support.written_runs import written_runs

ONE = np.ones(1, np.float32)
SAMPLES = written_runs(60, noise=0.3, seed=1)
OTHERS = written_runs(20, noise=0.3, seed=2)


def artifact(kind: str) -> Artifact:
    logs = [math.log(s.cost) for s in SAMPLES]
    return Artifact(
        FITS[kind](SAMPLES, 1), Provenance(kind, "apps/check", len(SAMPLES), "ab", min(logs), max(logs), {})
    )


ALL = {kind: artifact(kind).to_bytes() for kind in FITS}


@pytest.mark.parametrize("kind", FITS)
def test_what_was_written_says_the_same_when_read(kind: str) -> None:
    before, after = artifact(kind), Artifact.from_bytes(ALL[kind])
    assert after.about == before.about
    assert [after.predict(s.features) for s in OTHERS] == [before.predict(s.features) for s in OTHERS]


def test_the_same_samples_give_the_same_digest() -> None:
    one, same = (train("apps/check", SAMPLES, seed=1).to_bytes() for _ in range(2))
    assert digest(one) == digest(same)
    assert digest(one) != digest(train("apps/check", SAMPLES[1:], seed=1).to_bytes())


@pytest.mark.parametrize("kind", FITS)
@given(data=st.data())
def test_damaged_content_is_refused_or_can_be_computed_with(kind: str, data: st.DataObject) -> None:
    content = bytearray(ALL[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)) | st.just(len(content)))
    try:
        read = Artifact.from_bytes(bytes(content[:cut]))
    except ArtifactError:
        return
    predicted = read.predict(OTHERS[0].features)
    assert math.isfinite(predicted)
    assert predicted > 0


@given(st.binary(max_size=300))
def test_any_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(ArtifactError):
        Artifact.from_bytes(content)


def saved(value: NDArray[Any] = ONE, **changes: object) -> bytes:
    about = {"kind": "running-mean", "application": "a/b", "samples": 1, "data": "", "lowest": 0, "highest": 1}
    about |= {"errors": {}, "features": FEATURES_VERSION, **changes}
    return save({"value": value}, {"justitia": json.dumps(about)})


def test_what_is_told_of_an_artifact_that_cannot_be_used() -> None:
    assert Artifact.from_bytes(saved()).predict(OTHERS[0].features) == pytest.approx(math.e)
    for content, why in [
        (pickle.dumps({"a": 1}), "damaged"),
        (saved(features=FEATURES_VERSION + 1), "train it again"),
        (saved(kind="pickle"), "unknown kind 'pickle'"),
        (saved(kind="linear"), "damaged: encoding.buckets is missing"),
        (save({"value": ONE}), "damaged"),
        (saved(lowest=2), "damaged: costs from"),
        (saved(highest=1e300), "damaged: costs from"),
        (b"\0" * (MOST_BYTES + 1), "at most"),
    ]:
        with pytest.raises(ArtifactError, match=why):
            Artifact.from_bytes(content)


@pytest.mark.parametrize("value", [np.array([np.nan], np.float32), np.array([1.0]), np.array([1], np.int8)])
def test_numbers_of_other_kinds_are_refused(value: NDArray[Any]) -> None:
    with pytest.raises(ArtifactError, match="plain numbers"):
        Artifact.from_bytes(saved(value))


def test_predictions_stay_near_what_was_seen() -> None:
    for lowest, highest, wanted in ((10.0, 11.0, math.exp(9)), (0.0, 0.0, math.exp(1))):
        read = Artifact.from_bytes(saved(lowest=lowest, highest=highest))
        assert read.predict(OTHERS[0].features) == pytest.approx(wanted)
