"""Two policies compared run by run, against figures worked out by hand."""

import pytest

from justitia_benchmarks.comparison import compare

THEIRS = [10.0, 100.0, 1.0, 40.0]
COSTS = [2.0, 9.0, 1.0, 5.0]


def test_the_same_times_compare_as_one() -> None:
    same = compare(THEIRS, THEIRS, COSTS)
    assert (same.mean, same.p99, same.largest_decile, same.not_later, same.worst) == (1.0, 1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("ours", "part"),
    [
        ([12.0, 110.0, 3.0, 44.0], 1.0),
        ([12.1, 110.0, 3.0, 44.0], 0.75),
        ([12.0, 110.1, 3.1, 44.1], 0.25),
    ],
    ids=["on the limits", "two seconds and more", "a tenth and more"],
)
def test_later_is_by_more_than_a_tenth_and_more_than_two_seconds(ours: list[float], part: float) -> None:
    assert compare(ours, THEIRS, COSTS).not_later == part


def test_the_largest_decile_is_chosen_by_cost_and_not_by_time() -> None:
    found = compare([10.0, 50.0, 4.0, 40.0], THEIRS, COSTS)
    assert (found.largest_decile, found.worst) == (0.5, 4.0)
    assert found.mean == pytest.approx(104 / 151)


def test_other_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="2, 4 and 4 runs to compare"):
        compare([1.0, 2.0], THEIRS, COSTS)
