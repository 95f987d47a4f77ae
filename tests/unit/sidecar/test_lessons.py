"""A lesson is kept of a run from its first request until what it cost is settled, while there is room for it."""

import pytest

from justitia_sidecar.learning import lessons as module
from justitia_sidecar.learning.lessons import Lessons
from justitia_sidecar.learning.prediction import RunPrediction
from justitia_sidecar.limits.held import HeldBytes, HeldKind, Holding
from justitia_vocabulary.units import TenantId
from support.learning_room import prediction, tracked

SIZE = prediction().size


class Rig:
    """Lessons on an account with room for ten of them."""

    def __init__(self) -> None:
        self.held = HeldBytes(10 * SIZE)
        self.forgotten = 0
        self.lessons = Lessons(self.held, self._forget)

    def _forget(self) -> None:
        self.forgotten += 1

    def settled(self, before: float) -> list[tuple[str, RunPrediction]]:
        return [(run.id, seen) for run, seen in self.lessons.settled(before)]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_lesson_is_on_its_tenants_account_until_it_is_settled(rig: Rig) -> None:
    run, seen = tracked(1), prediction()
    rig.lessons.run_began(run, seen)
    assert rig.held.held(TenantId("gold")) == SIZE
    rig.lessons.run_ended(run, 10.0)
    assert rig.held.total == SIZE
    assert rig.settled(9.9) == []
    assert rig.settled(10.0) == [("run-1", seen)]
    assert (rig.held.total, rig.forgotten) == (0, 0)
    assert rig.settled(10.0) == []


def test_runs_settle_in_the_order_in_which_they_ended(rig: Rig) -> None:
    runs = [tracked(number) for number in range(3)]
    for run in runs:
        rig.lessons.run_began(run, prediction())
    for now, run in enumerate(reversed(runs)):
        rig.lessons.run_ended(run, float(now))
    assert [run for run, _ in rig.settled(1.0)] == ["run-2", "run-1"]
    assert [run for run, _ in rig.settled(2.0)] == ["run-0"]


def test_the_first_of_requests_that_begin_a_run_together_counts(rig: Rig) -> None:
    run, first = tracked(), prediction()
    rig.lessons.run_began(run, first)
    rig.lessons.run_began(run, prediction(keep_text=True))
    assert rig.held.total == SIZE
    rig.lessons.run_ended(run, 0.0)
    assert rig.settled(0.0) == [("run-0", first)]


def test_a_run_of_which_nothing_was_noticed_settles_nothing(rig: Rig) -> None:
    rig.lessons.run_ended(tracked(), 0.0)
    assert rig.settled(0.0) == []


def test_a_run_without_room_for_its_lesson_is_forgotten(rig: Rig) -> None:
    rig.held.capacity = SIZE - 1
    run = tracked()
    rig.lessons.run_began(run, prediction())
    assert (rig.held.total, rig.forgotten) == (0, 1)
    rig.lessons.run_ended(run, 0.0)
    assert rig.settled(0.0) == []


def test_what_others_hold_takes_an_open_runs_lesson_and_never_an_ended_ones(rig: Rig) -> None:
    still_open, over = tracked(0), tracked(1)
    for run in (still_open, over):
        rig.lessons.run_began(run, prediction())
    rig.lessons.run_ended(over, 0.0)
    rig.held.capacity = 2 * SIZE
    body = Holding(TenantId("silver"), HeldKind.BODY, lambda: None)
    assert rig.held.put(body, SIZE)
    assert rig.forgotten == 1
    assert [run for run, _ in rig.settled(0.0)] == ["run-1"]


def test_too_many_that_ended_cost_the_oldest(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENDED", 3)
    for number in range(5):
        run = tracked(number)
        rig.lessons.run_began(run, prediction())
        rig.lessons.run_ended(run, 0.0)
    assert rig.held.total == 3 * SIZE
    assert [run for run, _ in rig.settled(0.0)] == ["run-2", "run-3", "run-4"]
