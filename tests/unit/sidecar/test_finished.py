"""A run that is over becomes a sample, unless nothing can be learned from it."""

import pytest

from justitia_sidecar.learning.finished import FinishedRun, finished_run
from support.learning_room import FEATURES, NAME, TIME_OF_DAY, prediction, tracked


def test_a_sample_holds_what_the_run_cost_and_what_was_known_at_its_first_request() -> None:
    run = tracked(cost=9.0)
    found = finished_run(run, prediction(keep_text=True), TIME_OF_DAY)
    assert found == FinishedRun(NAME, TIME_OF_DAY, False, 9.0, (9.0,), FEATURES, b"please survey the system")


def test_stages_cost_what_was_added_in_them_the_last_one_all_that_was_told_later() -> None:
    run = tracked(cost=10.0)
    run.stages = [3.0, 4.0, 8.0]
    found = finished_run(run, prediction(), TIME_OF_DAY)
    assert found is not None
    assert found.stages == (3.0, 1.0, 6.0)


@pytest.mark.parametrize(
    ("cost", "aborted", "features", "kept"),
    [
        (9.0, False, FEATURES, True),
        (9.0, True, FEATURES, True),
        (0.0, True, FEATURES, True),
        (0.0, False, FEATURES, False),
        (9.0, False, None, False),
        (9.0, True, None, False),
    ],
    ids=["cost", "aborted", "aborted at once", "cost nothing", "no features", "aborted without features"],
)
def test_some_runs_are_no_samples(cost: float, aborted: bool, features: bytes | None, kept: bool) -> None:
    found = finished_run(tracked(cost=cost, aborted=aborted), prediction(features=features), TIME_OF_DAY)
    assert [each.aborted for each in (found,) if each is not None] == [aborted] * kept
