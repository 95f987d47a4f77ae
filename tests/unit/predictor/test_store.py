"""What is stored comes back, an application's own only, and a store that fails says so."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from justitia_predictor import sample
from justitia_predictor.artifact import ArtifactError
from justitia_predictor.sample import BatchError, from_batch, to_batch
from justitia_predictor.store import Store, StoreError
from justitia_predictor.training import train
from support.written_runs import written_runs

SAMPLES = [
    replace(s, finished=float(i), stages=(1.0, s.cost - 1), text=b"as it was" if i % 2 else None)
    for i, s in enumerate(written_runs(30, noise=0.3, seed=1))
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"file://{tmp_path}/store")


def test_samples_come_back_oldest_first(store: Store) -> None:
    store.put_samples("a", "0002", SAMPLES[10:20])
    store.put_samples("a", "0001", SAMPLES[:10])
    store.put_samples("a", "0003", SAMPLES[20:])
    assert store.samples("a", 100) == (SAMPLES, 0)
    assert store.samples("a", 15) == (SAMPLES[-15:], 0)


def test_one_application_never_sees_anothers(store: Store) -> None:
    store.put_samples("a", "1", SAMPLES[:5])
    store.put_samples("a-b", "1", SAMPLES[5:])
    assert store.samples("a", 100) == (SAMPLES[:5], 0)
    assert store.erase("a") == 1
    assert store.samples("a", 100) == ([], 0)
    assert store.samples("a-b", 100) == (SAMPLES[5:], 0)


def test_a_batch_that_cannot_be_read_does_not_hide_the_others(store: Store, tmp_path: Path) -> None:
    store.put_samples("a", "1", SAMPLES[:5])
    (tmp_path / "store/a/samples/2").write_bytes(b"not a batch")
    assert store.samples("a", 100) == (SAMPLES[:5], 1)


def test_old_batches_are_erased(store: Store) -> None:
    for name in "123":
        store.put_samples("a", name, SAMPLES[:1])
    store.erase_samples_before("a", "3")
    assert store.samples("a", 100) == (SAMPLES[:1], 0)


def test_an_artifact_is_found_by_its_digest_and_by_nothing_else(store: Store, tmp_path: Path) -> None:
    artifact = train("a", SAMPLES)
    name = store.put_artifact(artifact)
    assert store.artifact("a", name).about == artifact.about
    (tmp_path / "store/a/artifacts" / name).write_bytes(artifact.to_bytes()[:-1] + b"?")
    with pytest.raises(ArtifactError, match="has another digest"):
        store.artifact("a", name)
    with pytest.raises(StoreError):
        store.artifact("b", name)


def test_stores_that_are_none() -> None:
    with pytest.raises(StoreError, match="is neither"):
        Store("ftp://somewhere")
    with pytest.raises(StoreError):
        Store(f"file://{os.devnull}/folder")


def test_batches_come_back_and_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = to_batch(SAMPLES)
    assert from_batch(content) == SAMPLES
    for damaged in (b"", content[:-9], b"?" + content[1:]):
        with pytest.raises(BatchError):
            from_batch(damaged)
    monkeypatch.setattr(sample, "FEATURES_VERSION", 99)
    with pytest.raises(BatchError, match="version 1"):
        from_batch(content)
    monkeypatch.setattr(sample, "MOST_BATCH_BYTES", 1000)
    with pytest.raises(BatchError, match="more than 1000 bytes"):
        from_batch(content)
