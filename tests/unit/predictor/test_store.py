"""What is stored comes back, an application's own only, and a store that fails says so."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import obstore
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
    store.put_samples("a", 900.5, "pod", SAMPLES[10:20])
    store.put_samples("a", 90, "pod", SAMPLES[:10])
    store.put_samples("a", 1000, "another", SAMPLES[20:])
    assert store.samples("a", 100) == (SAMPLES, 0)
    assert store.samples("a", 15) == (SAMPLES[-15:], 0)


def test_one_application_never_sees_anothers(store: Store) -> None:
    store.put_samples("a", 1, "pod", SAMPLES[:5])
    store.put_samples("a-b", 1, "pod", SAMPLES[5:])
    assert store.samples("a", 100) == (SAMPLES[:5], 0)
    assert store.erase("a") == 1
    assert store.samples("a", 100) == ([], 0)
    assert store.samples("a-b", 100) == (SAMPLES[5:], 0)


def test_a_batch_that_cannot_be_read_does_not_hide_the_others(store: Store, tmp_path: Path) -> None:
    store.put_samples("a", 1, "pod", SAMPLES[:5])
    (tmp_path / "store/a/samples/2").write_bytes(b"not a batch")
    assert store.samples("a", 100) == (SAMPLES[:5], 1)


def test_a_batch_that_is_put_again_is_there_once(store: Store) -> None:
    for _ in range(2):
        store.put_samples("a", 1, "pod-7", SAMPLES[:5])
    assert store.samples("a", 100) == (SAMPLES[:5], 0)


@pytest.mark.parametrize(
    ("most", "since", "left"),
    [(100, 0, 30), (100, 2, 20), (10, 0, 10), (11, 0, 20), (100, 4, 0), (1, 4, 0)],
)
def test_batches_that_are_too_old_or_too_much_are_erased(store: Store, most: int, since: float, left: int) -> None:
    for third in range(3):
        store.put_samples("a", third + 1, "pod", SAMPLES[10 * third : 10 * third + 10])
    assert store.tidy_samples("a", most, since) == left
    assert store.samples("a", 100) == (SAMPLES[30 - left :], 0)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\n"])
def test_a_name_that_could_mean_more_than_one_application_is_refused(store: Store, name: str) -> None:
    store.put_samples("a", 1, "pod", SAMPLES[:1])
    for call in (store.erase, lambda name: store.samples(name, 1), lambda name: store.tidy_samples(name, 0, 0)):
        with pytest.raises(StoreError, match="is no name of an application"):
            call(name)
    assert store.samples("a", 100) == (SAMPLES[:1], 0)


def test_batches_that_go_while_they_are_read_are_not_missed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in (1, 2):
        store.put_samples("a", at, "pod", SAMPLES[:at])
    get = obstore.get

    def tidied_meanwhile(bucket: Any, path: str) -> Any:
        monkeypatch.setattr(obstore, "get", get)
        store.tidy_samples("a", 100, since=2)
        return get(bucket, path)

    monkeypatch.setattr(obstore, "get", tidied_meanwhile)
    assert store.samples("a", 100) == (SAMPLES[:2], 0)
    assert store.tidy_samples("a", 100, since=0) == 2


def test_what_killed_writers_left_goes_with_its_time_and_with_its_application(store: Store, tmp_path: Path) -> None:
    store.put_samples("a", 3, "pod", SAMPLES[:1])
    folder = tmp_path / "store/a/samples"
    for at in (1, 2):
        (folder / f"{at:020.6f}-pod-10#1").write_bytes(b"half")
    assert store.tidy_samples("a", 100, since=2) == 1
    assert sorted(path.name[12] for path in folder.iterdir()) == ["2", "3"]
    assert store.erase("a") == 1
    assert not (tmp_path / "store/a").exists()


def test_what_others_put_there_counts_for_nothing(store: Store, tmp_path: Path) -> None:
    store.put_samples("a", 1, "pod", SAMPLES[:5])
    for name in ("notes", "9-pod-x", "99999999999999999999-9999999999"):
        (tmp_path / "store/a/samples" / name).write_bytes(b"?")
    assert store.tidy_samples("a", 100, 0) == 5
    assert store.tidy_samples("nobody", 100, 0) == 0


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
