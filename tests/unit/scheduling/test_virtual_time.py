"""What the virtual clock keeps of runs. That it is a fluid server's clock: `tests/property/test_fair_finish.py`."""

import pytest

from justitia_scheduling.core.gps import VirtualTime, in_kv_token_time
from justitia_vocabulary.units import RunId

A, B = RunId("a"), RunId("b")


def test_a_run_that_is_over_is_kept_until_the_fluid_server_has_finished_it_and_no_longer() -> None:
    clock = VirtualTime()
    clock.arrive(A, 10, 1)
    clock.arrive(B, 100, 1)
    clock.end(A, 10)
    clock.advance(19)
    assert in_kv_token_time(clock.finish(A)) == 10
    clock.advance(1)
    with pytest.raises(KeyError):
        clock.finish(A)


def test_a_run_that_the_fluid_server_has_finished_already_is_forgotten_when_it_is_over() -> None:
    clock = VirtualTime()
    clock.arrive(A, 10, 1)
    clock.arrive(B, 100, 1)
    clock.advance(50)
    assert in_kv_token_time(clock.finish(A)) == 10
    clock.end(A, 10)
    with pytest.raises(KeyError):
        clock.finish(A)


def test_a_run_that_is_over_when_the_fluid_server_finishes_it_is_forgotten_at_that_moment() -> None:
    clock = VirtualTime()
    clock.arrive(A, 10, 1)
    clock.advance(10)
    clock.end(A, 10)
    with pytest.raises(KeyError):
        clock.finish(A)


def test_runs_that_the_fluid_server_finishes_at_one_moment_leave_it_together() -> None:
    clock = VirtualTime()
    for run in (A, B):
        clock.arrive(run, 10, 1)
        clock.end(run, 10)
    clock.advance(20)
    for run in (A, B):
        with pytest.raises(KeyError):
            clock.finish(run)


def test_a_run_that_is_open_is_kept_however_much_it_has_been_served() -> None:
    clock = VirtualTime()
    clock.arrive(A, 10, 4)
    clock.advance(1000)
    assert [in_kv_token_time(tag) for tag in (clock.tag(A, 0), clock.tag(A, 8), clock.finish(A))] == [0, 2, 2.5]


def test_the_rounding_of_a_busy_time_does_not_slow_the_next_one() -> None:
    """Weights far apart, whose sum is not exact. When all have left, the weight of those that are active is none."""
    clock = VirtualTime()
    for number, weight in enumerate([1e6 / 3, 0.001, 1e6 / 7, 0.003]):
        clock.arrive(RunId(str(number)), 1.0, weight)
    clock.advance(4.0)
    before = clock.now
    clock.arrive(A, 1.0, 0.001)
    clock.advance(0.5)
    assert clock.now - before == pytest.approx(500, rel=1e-9)


def test_forgetting_the_backlog_leaves_the_clock_where_it_is() -> None:
    clock = VirtualTime()
    clock.arrive(A, 10, 1)
    clock.arrive(B, 100, 3)
    clock.advance(4)
    clock.clear()
    assert clock.now == 1
    clock.advance(50)
    assert clock.now == 1
    clock.arrive(A, 10, 2)
    assert [in_kv_token_time(tag) for tag in (clock.tag(A, 0), clock.finish(A))] == [1, 6]
    clock.advance(4)
    assert clock.now == 3
