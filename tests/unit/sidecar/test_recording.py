"""Runs that are over become samples on the pod's disk, and their predictions are compared with what they cost."""

import math
from collections.abc import Callable

import pytest

from justitia_api.status import ErrorSums
from justitia_sidecar.learning.evidence import Evidence
from justitia_sidecar.learning.learner import build_learner
from justitia_sidecar.learning.prediction import RunPrediction
from support.learning_room import NAME, Room, learning_pool, prediction, tracked
from support.sidecar_client import pool

VERSION, CANDIDATE = "a" * 64, "b" * 64
COST = 9.0


@pytest.fixture
def evidence(room: Room) -> Evidence:
    """The application's, with one run over that cost as much."""
    room.learner.configure(learning_pool(version=VERSION, candidate=CANDIDATE))
    learned = room.learner.applications.learned(NAME)
    assert learned is not None
    learned.evidence.end(learned.evidence.begin(), {}, COST)
    return learned.evidence


@pytest.fixture
def predicted(evidence: Evidence) -> Callable[[], RunPrediction]:
    """A run begins, and is predicted to cost twice as much by the version, four times by the candidate."""

    def begin() -> RunPrediction:
        found = prediction(version=VERSION, candidate=CANDIDATE)
        found.begun, found.by_version = evidence.begin(), {VERSION: 2 * COST, CANDIDATE: 4 * COST}
        return found

    return begin


async def over(room: Room, seen: RunPrediction, *, cost: float = COST, aborted: bool = False) -> None:
    run = tracked(cost=cost, aborted=aborted)
    room.learner.lessons.run_began(run, seen)
    room.learner.lessons.run_ended(run, room.clock())
    await room.settle()


def errors(runs: int, error: float, baseline: float) -> dict[str, float]:
    difference = (baseline - error) ** 2
    return ErrorSums(runs=runs, error=error, baseline=baseline, squared_difference=difference).model_dump()


def observed(room: Room, role: str) -> tuple[float, float]:
    labels = {"tenant": "gold", "application": "ns/a", "model": role}
    return (
        room.counted("justitia_prediction_error_count", **labels),
        room.counted("justitia_prediction_error_sum", **labels),
    )


async def test_runs_are_written_once_when_they_are_settled(room: Room) -> None:
    run = tracked()
    room.learner.lessons.run_began(run, prediction())
    room.learner.lessons.run_ended(run, room.clock())
    await room.learner.recording.write(room.clock() - 1)
    assert room.samples.counts() == {}
    for _ in range(2):
        await room.settle()
        assert room.samples.counts() == {NAME: (1, 0)}
    ((_, sample),) = room.samples.unflushed(NAME, 10)
    assert sample.finished == room.clock.time_of_day() - 2


async def test_predictions_are_compared_with_what_the_run_cost(
    room: Room, evidence: Evidence, predicted: Callable[[], RunPrediction]
) -> None:
    await over(room, predicted())
    assert evidence.version_errors.since_start.model_dump() == pytest.approx(errors(1, math.log(2), 0.0))
    assert evidence.candidate_errors.since_start.model_dump() == pytest.approx(errors(1, math.log(4), math.log(2)))
    assert observed(room, "version") == (1, pytest.approx(math.log(2)))
    assert observed(room, "candidate") == (1, pytest.approx(math.log(4)))


@pytest.mark.parametrize(("cost", "aborted"), [(COST, True), (0.0, False)], ids=["aborted", "cost nothing"])
async def test_a_run_whose_cost_says_nothing_is_not_compared(
    room: Room, evidence: Evidence, predicted: Callable[[], RunPrediction], cost: float, aborted: bool
) -> None:
    await over(room, predicted(), cost=cost, aborted=aborted)
    assert evidence.version_errors.since_start.runs == 0
    assert observed(room, "version") == (0, 0)
    assert evidence.begin().mean == pytest.approx(COST)


async def test_an_application_that_left_meanwhile_has_no_evidence_and_still_a_metric(
    room: Room, evidence: Evidence, predicted: Callable[[], RunPrediction]
) -> None:
    seen = predicted()
    room.learner.configure(pool(2))
    await over(room, seen)
    assert evidence.version_errors.since_start.runs == 0
    assert observed(room, "version")[0] == 1


async def test_a_disk_that_takes_nothing_costs_the_sample_and_not_the_comparison(
    room: Room, evidence: Evidence, predicted: Callable[[], RunPrediction]
) -> None:
    room.samples.close()
    await over(room, predicted())
    assert room.failures("write") == 1
    assert evidence.version_errors.since_start.runs == 1


async def test_where_nothing_is_kept_runs_are_compared_all_the_same(
    room: Room, evidence: Evidence, predicted: Callable[[], RunPrediction]
) -> None:
    without = build_learner(None, None, room.metrics, room.clock, room.clock.time_of_day)
    without.configure(learning_pool(version=VERSION))
    run = tracked()
    without.lessons.run_began(run, predicted())
    without.lessons.run_ended(run, room.clock())
    await without.recording.write(room.clock())
    assert observed(room, "version")[0] == 1
    assert room.failures("write") == 0
