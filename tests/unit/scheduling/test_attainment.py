"""What is observed of an objective, and attainment, budget and burn rates by hand."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.objectives.attainment import Attainment, attainment, counted
from justitia_scheduling.objectives.demand import Demand
from justitia_scheduling.objectives.objective import Direction, Objective
from justitia_scheduling.objectives.observations import SLICES, Observations, Watched
from justitia_vocabulary.objectives import MetricName

START = 6000.0


def objective(
    metric: MetricName = MetricName.TIME_TO_FIRST_TOKEN,
    percentile: float = 0.9,
    bound: float = 1.0,
    window: float = 600.0,
) -> Objective:
    return Objective(metric, percentile, bound, window)


def watching(of: Objective | None = None) -> Observations:
    return Observations({"o": of or objective()})


def put(seen: Observations, arrival: float, value: float) -> None:
    seen.observe("o", value, arrival + value)


def attained(watched: Watched, now: float) -> Attainment:
    return attainment(watched.objective.percentile, counted(watched, now))


@pytest.mark.parametrize(
    ("metric", "percentile", "direction"),
    [
        (MetricName.TIME_TO_FIRST_TOKEN, 0.99, Direction.DOWN),
        (MetricName.REQUEST_COMPLETION, 0.9, Direction.DOWN),
        (MetricName.REQUEST_COMPLETION, 0.95, Direction.MEASURED),
        (MetricName.RUN_COMPLETION, 0.99, Direction.UP),
        (MetricName.TIME_PER_OUTPUT_TOKEN, 0.5, Direction.MEASURED),
    ],
)
def test_which_way_gamma_moves(metric: MetricName, percentile: float, direction: Direction) -> None:
    assert objective(metric, percentile).direction is direction


@pytest.mark.parametrize(
    "wrong", [{"percentile": 1.0}, {"percentile": 0.0}, {"bound": 0.0}, {"window": math.inf}, {"bound": math.nan}]
)
def test_impossible_objectives_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        objective(**wrong)  # type: ignore[arg-type]


def test_nothing_is_missed_before_anything_is_known() -> None:
    found = attained(watching().watched["o"], START)
    assert (found.count, found.share, found.value, found.budget, found.fast_burn) == (0, 1.0, None, 1.0, 0.0)


def test_attainment_budget_and_burn_rates_by_hand() -> None:
    """600 s in slices of 10 s, one value a second. In the last 50 s every third misses, before none; a tenth may."""
    seen = watching()
    for second in range(600):
        put(seen, START + second, 2.0 if second >= 550 and second % 3 == 0 else 0.5)
    found = attained(seen.watched["o"], START + 601)
    misses = sum(second % 3 == 0 for second in range(550, 600))
    assert (found.count, misses) == (600, 16)
    assert found.share == pytest.approx(1 - 16 / 600)
    assert found.budget == pytest.approx(1 - 16 / 60)
    assert found.fast_burn == pytest.approx(16 / 50 / 0.1)
    assert found.slow_burn == pytest.approx(16 / 300 / 0.1)
    assert found.value == pytest.approx(0.5, rel=0.01)
    assert not found.alerted


@pytest.mark.parametrize(
    ("every", "seconds", "alerted"), [(1, 50, True), (1, 8, False), (2, 50, False), (5, 300, True)]
)
def test_an_alert_needs_its_burn_over_the_long_and_the_short_part(every: int, seconds: int, alerted: bool) -> None:
    """One in 1, 2, 5 is burn 10, 5, 2. The fast alert: 6 over 50 s and 10 s. The slow one: 1.5 over 300 s and 50 s."""
    seen = watching()
    for second in range(600):
        missed = second >= 600 - seconds and second % every == 0
        put(seen, START + second, 2.0 if missed else 0.5)
    assert attained(seen.watched["o"], START + 601).alerted is alerted


def test_an_alert_ends_soon_after_the_misses_do() -> None:
    seen = watching()
    for second in range(650):
        put(seen, START + second, 2.0 if 500 <= second < 560 else 0.5)
        if second == 570:
            assert attained(seen.watched["o"], START + second).alerted
    after = attained(seen.watched["o"], START + 651)
    assert (after.alerted, after.budget) == (False, 0.0)


def test_values_leave_with_the_window() -> None:
    seen = watching()
    for second in range(100):
        put(seen, START + second, 2.0)
    put(seen, START + 650, 0.5)
    assert attained(seen.watched["o"], START + 661).count == 1 + 40
    assert attained(seen.watched["o"], START + 2000).count == 0


def test_memory_is_bounded_by_slices() -> None:
    seen = watching()
    for second in range(20_000):
        put(seen, START + second, 0.5)
    assert len(seen.state()["watched"]["o"]["budget"]) <= SLICES + 2
    assert len(seen.state()["watched"]["o"]["recent"]) <= SLICES


def test_a_request_counts_where_it_arrived_once_everything_of_that_moment_is_known() -> None:
    seen = watching(objective(bound=30.0))
    put(seen, START + 5, 1.0)
    assert attained(seen.watched["o"], START + 39).count == 0
    assert attained(seen.watched["o"], START + 40).count == 1


def test_an_open_request_older_than_the_bound_misses_it() -> None:
    seen = watching()
    now = START + 100
    put(seen, START + 85, 0.5)
    seen.still_open("o", [0.4, 15.0], now)
    found = attained(seen.watched["o"], now)
    assert (found.count, found.share) == (2, 0.5)
    seen.still_open("o", [], now)
    assert attained(seen.watched["o"], now).count == 1


def test_the_pace_of_decoding_counts_when_it_is_known() -> None:
    seen = watching(objective(MetricName.TIME_PER_OUTPUT_TOKEN))
    seen.observe("o", 0.02, START + 5)
    assert attained(seen.watched["o"], START + 10).count == 1


VALUES = st.lists(st.tuples(st.floats(0, 900), st.floats(0.01, 50), st.booleans()), max_size=60)


@given(VALUES)
def test_replicas_merge_to_what_one_would_have_seen(values: list[tuple[float, float, bool]]) -> None:
    one, a, b = watching(), watching(), watching()
    for arrival, value, first in sorted(values, key=lambda v: v[0] + v[1]):
        for seen in (one, a if first else b):
            put(seen, START + arrival, value)
    a.merge(b)
    now = START + 960
    assert attained(a.watched["o"], now) == attained(one.watched["o"], now)


def test_replicas_merge_overdue_requests_and_demand() -> None:
    a, b = watching(), watching()
    for seen, arrivals, engine_time in ((a, 60, 0.01), (b, 120, 0.02)):
        for i in range(arrivals):
            seen.demand.arrived("a", START + i * 60 / arrivals)
            seen.demand.served("a", engine_time)
        seen.still_open("o", [20.0], START + 60)
    a.merge(b)
    assert attained(a.watched["o"], START + 60).count == 2
    assert a.demand.rate(START + 60) == pytest.approx(3.0 * (60 * 0.01 + 120 * 0.02) / 180, rel=0.05)


@given(VALUES)
def test_a_restart_goes_on_with_what_was_seen(values: list[tuple[float, float, bool]]) -> None:
    before, after = watching(), watching()
    for arrival, value, _ in sorted(values, key=lambda v: v[0] + v[1]):
        put(before, START + arrival, value)
        before.demand.arrived("a", START + arrival)
        before.demand.served("a", value)
    before.still_open("o", [1000.0 - 950.0], START + 1000)
    after.restore(json.loads(json.dumps(before.state())))
    now = START + 1000
    assert attained(after.watched["o"], now) == attained(before.watched["o"], now)
    assert after.demand.rate(now) == before.demand.rate(now)


def test_another_bound_is_counted_anew_and_another_percentile_is_not() -> None:
    seen = watching()
    put(seen, START, 0.5)
    seen.declare({"o": objective(percentile=0.5)})
    assert attained(seen.watched["o"], START + 60).count == 1
    seen.declare({"o": objective(bound=0.1)})
    assert attained(seen.watched["o"], START + 60).count == 0
    other = Watched(objective(bound=0.2))
    assert attained(other, START).count == 0
    with pytest.raises(KeyError):
        seen.observe("unknown", 1.0, START)


def test_state_of_another_bound_is_passed_over() -> None:
    before, after = watching(), watching(objective(bound=3.0))
    put(before, START, 0.5)
    after.restore(before.state())
    assert attained(after.watched["o"], START + 60).count == 0


def test_after_the_clock_was_set_back_it_counts_again() -> None:
    seen = watching()
    put(seen, START + 100_000, 0.5)
    put(seen, START, 0.5)
    assert attained(seen.watched["o"], START + 60).count == 1


def test_demand_counts_what_starves_by_what_its_application_took_before() -> None:
    """Two a second of .1 s each, and one a second of 3 s of which none finishes any more: 3.2, not .3."""
    demand = Demand()
    demand.served("long", 3.0)
    assert demand.rate(START) is None
    for second in range(60):
        for application in ("short", "short", "long"):
            demand.arrived(application, START + second)
        demand.served("short", 0.1)
        demand.served("short", 0.1)
    assert demand.rate(START + 60) == pytest.approx(3.2)
