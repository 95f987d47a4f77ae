"""Work in the thread of disk and store may fail: then it is counted and logged, and nothing is raised."""

import asyncio

import pytest
from structlog.testing import capture_logs

from justitia_predictor.artifact import ArtifactError
from justitia_predictor.store import NotStoredError, StoreError
from justitia_sidecar.learning.attempts import Attempt, Attempts, FailedAttempt
from justitia_sidecar.metrics import SidecarMetrics
from support.executors import AtOnce, ByHand


def failures(metrics: SidecarMetrics, attempt: Attempt) -> float:
    value = metrics.registry.get_sample_value("justitia_learning_failures_total", {"attempt": attempt.value})
    return value or 0.0


async def test_work_that_succeeds_is_neither_counted_nor_logged() -> None:
    metrics = SidecarMetrics()
    with capture_logs() as logs:
        found = await Attempts(AtOnce(), metrics).run(Attempt.LOAD, lambda: 7, failed="not loaded")
    assert (found, logs, failures(metrics, Attempt.LOAD)) == (7, [], 0)


async def test_the_loop_goes_on_while_the_thread_works() -> None:
    thread = ByHand()
    working = asyncio.create_task(Attempts(thread, SidecarMetrics()).run(Attempt.LOAD, lambda: 7, failed="not loaded"))
    await asyncio.sleep(0)
    assert not working.done()
    thread.work()
    assert await working == 7


async def test_work_that_fails_is_counted_and_logged_with_what_failed_and_why() -> None:
    def fail() -> None:
        raise StoreError("away")

    metrics = SidecarMetrics()
    with capture_logs() as logs:
        found = await Attempts(AtOnce(), metrics).run(Attempt.STORE, fail, failed="not counted", application="a")
    assert isinstance(found, FailedAttempt)
    assert failures(metrics, Attempt.STORE) == 1
    assert failures(metrics, Attempt.LOAD) == 0
    wanted = {"event": "not counted", "attempt": "store", "reason": "away", "application": "a", "log_level": "warning"}
    assert logs == [wanted]


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (StoreError("away"), True),
        (NotStoredError("not there"), False),
        (ArtifactError("damaged"), False),
        (KeyError("a bug"), False),
    ],
)
def test_only_a_store_that_does_not_answer_is_away(error: Exception, away: bool) -> None:
    assert FailedAttempt(error).store_is_away is away


def test_an_error_without_words_is_named() -> None:
    assert FailedAttempt(ValueError()).reason == "ValueError()"
