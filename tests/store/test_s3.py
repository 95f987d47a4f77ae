"""The store in a bucket of a real S3 service: what is put comes back, and what fails says so without keys."""

import time
from collections.abc import Callable

import pytest

from justitia_predictor import s3
from justitia_predictor.artifact import ArtifactError
from justitia_predictor.s3 import LONGEST_CALL
from justitia_predictor.sample import to_batch
from justitia_predictor.store import NotStoredError, Store, StoreError
from justitia_predictor.training import fitted
from justitia_sidecar.__main__ import CLOSE_SECONDS
from support.silent_server import BEGUN, silent_server
from support.written_runs import written_runs

from .conftest import KEY, SECRET, Service, environment

SAMPLES = written_runs(30, noise=0.3, seed=1)
DIGEST = "0" * 64

Call = Callable[[Store], object]
CALLS: dict[str, Call] = {
    "put": lambda store: store.put_samples("a", 1, "pod", SAMPLES[:1]),
    "read": lambda store: store.samples("a", 10),
    "count": lambda store: store.tidy_samples("a", 10, 0),
    "artifact": lambda store: store.artifact("a", DIGEST),
    "erase": lambda store: store.erase("a"),
}


def put_thirds(store: Store, application: str) -> None:
    for third in range(3):
        store.put_samples(application, third + 1, "pod", SAMPLES[10 * third : 10 * third + 10])


def refusal_of(call: Call, url: str = "s3://justitia/refused") -> str:
    """The message of a call that is refused, without anything that is nobody's business."""
    store = Store(url)
    with pytest.raises(StoreError) as caught:
        call(store)
    assert not isinstance(caught.value, NotStoredError)
    said = str(caught.value)
    for secret in (KEY, SECRET, "StringToSign"):
        assert secret not in said
    assert caught.value.__cause__ is None
    return said


def test_samples_are_put_listed_read_and_erased(store: Store) -> None:
    put_thirds(store, "a")
    put_thirds(store, "a-b")
    assert store.samples("a", 100) == (SAMPLES, 0)
    assert store.samples("a", 15) == (SAMPLES[-15:], 0)
    assert store.tidy_samples("a", 100, 0) == 30
    assert store.tidy_samples("a", 100, 2) == 20
    assert store.tidy_samples("a", 10, 0) == 10
    assert store.samples("a", 100) == (SAMPLES[20:], 0)
    assert store.erase("a") == 1
    assert store.samples("a", 100) == ([], 0)
    assert store.tidy_samples("a", 100, 0) == 0
    assert store.samples("a-b", 100) == (SAMPLES, 0)


def test_what_is_put_again_is_there_once(store: Store) -> None:
    for _ in range(2):
        store.put_samples("a", 1, "pod", SAMPLES)
    assert store.tidy_samples("a", 100, 0) == 30


def test_more_than_a_page_is_counted_and_erased(store: Store, told: Service) -> None:
    """A listing's page has 1,000 names."""
    folder = told.bucket / store.url.rpartition("/")[2] / "a/samples"
    folder.mkdir(parents=True)
    for number in range(1100):
        (folder / f"{number:020.6f}-pod-1").write_bytes(to_batch(SAMPLES[:1]))
    assert store.tidy_samples("a", 2000, 0) == 1100
    assert store.tidy_samples("a", 50, 0) == 50
    assert store.erase("a") == 50


def test_an_artifact_comes_back_as_it_was(store: Store) -> None:
    artifact = fitted("linear", "a", SAMPLES, seed=0)
    name = store.put_artifact(artifact)
    found = store.artifact("a", name)
    assert found.to_bytes() == artifact.to_bytes()
    assert found.predict(SAMPLES[0].features) == artifact.predict(SAMPLES[0].features)


def test_an_artifact_that_is_not_there_or_damaged_is_told_apart(store: Store, told: Service) -> None:
    with pytest.raises(NotStoredError, match="the artifact 000000000000 is not in the store"):
        store.artifact("a", DIGEST)
    name = store.put_artifact(fitted("linear", "a", SAMPLES, seed=0))
    (told.bucket / store.url.rpartition("/")[2] / "a/artifacts" / name).write_bytes(b"damaged")
    with pytest.raises(ArtifactError, match="another digest"):
        store.artifact("a", name)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("variable", "answer"),
    [
        ("AWS_SECRET_ACCESS_KEY", "403 Forbidden: SignatureDoesNotMatch"),
        # Others say "InvalidAccessKeyId". This one has users of its own.
        ("AWS_ACCESS_KEY_ID", "404 Not Found: XAdminUserNotFound"),
    ],
)
def test_wrong_keys_are_refused(
    told: Service, monkeypatch: pytest.MonkeyPatch, name: str, variable: str, answer: str
) -> None:
    monkeypatch.setenv(variable, "AKIAWRONG")
    said = refusal_of(CALLS[name])
    assert said.endswith(f": {answer}")
    assert "AKIAWRONG" not in said


@pytest.mark.parametrize("name", CALLS)
def test_a_bucket_that_is_not_there_is_the_stores_fault(told: Service, name: str) -> None:
    assert refusal_of(CALLS[name], "s3://another").endswith(": 404 Not Found: NoSuchBucket")


@pytest.mark.parametrize("name", CALLS)
def test_a_service_that_is_away_says_so_in_time(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for variable, value in environment("http://somebody:something@127.0.0.1:1").items():
        monkeypatch.setenv(variable, value)
    started = time.monotonic()
    said = refusal_of(CALLS[name])
    assert time.monotonic() - started < LONGEST_CALL
    assert "127.0.0.1:1" in said
    assert "something" not in said


def test_a_service_that_never_answers_is_waited_for_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_server() as server:
        for variable, value in environment(server.address).items():
            monkeypatch.setenv(variable, value)
        started = time.monotonic()
        assert refusal_of(CALLS["put"]).endswith("no answer in time")
        assert s3.TRY_SECONDS <= time.monotonic() - started < LONGEST_CALL


@pytest.mark.parametrize(
    ("name", "says"),
    [*((name, b"") for name in CALLS), *((name, BEGUN) for name in CALLS if name != "put")],
    ids=lambda value: value if isinstance(value, str) else ("begun" if value else "silent"),
)
def test_no_call_waits_for_an_answer_that_does_not_come(
    monkeypatch: pytest.MonkeyPatch, name: str, says: bytes
) -> None:
    """Nor for the rest of one that has begun, where the rest is needed."""
    monkeypatch.setattr(s3, "TRY_SECONDS", 0.3)
    with silent_server(says) as server:
        for variable, value in environment(server.address).items():
            monkeypatch.setenv(variable, value)
        started = time.monotonic()
        refusal_of(CALLS[name])
        assert time.monotonic() - started < LONGEST_CALL


def test_two_calls_fit_into_a_schedulers_end() -> None:
    """One that is under way, and the one that brings the samples."""
    assert 2 * LONGEST_CALL < CLOSE_SECONDS


def test_keys_have_no_place_in_the_url() -> None:
    with pytest.raises(StoreError, match="must not hold keys") as caught:
        Store(f"s3://{KEY}:{SECRET}@justitia")
    assert KEY not in str(caught.value)
