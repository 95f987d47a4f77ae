"""The benchmark keeps its queue at the length it reports, and its growth tells linear from constant."""

import random

import pytest

from justitia_benchmarks.speed import OPERATIONS, RUNNING, STEP_TIME, Timing, Traffic, growth, measure, rows
from justitia_scheduling.cost import EngineTime
from justitia_scheduling.registry import DEFAULT_POLICY, build_policy


def test_the_queue_keeps_its_length_and_the_batch_its_size() -> None:
    traffic = Traffic(build_policy(DEFAULT_POLICY, EngineTime(STEP_TIME)), 1000, random.Random(1))
    for _ in range(300):
        traffic.turn()
    assert (len(traffic.policy.order()), len(traffic.policy.running), traffic.tenants) == (1000, RUNNING, 10)


def test_every_operation_is_measured() -> None:
    timings = measure(DEFAULT_POLICY, 10, 100)
    assert [t.operation for t in timings] == list(OPERATIONS)
    assert all(t.p99 >= t.median for t in timings)


@pytest.mark.parametrize(("power", "factor"), [(0, 1.0), (1, 10.0), (0.5, 10**0.5)])
def test_growth_is_the_factor_per_tenfold_queue(power: float, factor: float) -> None:
    timings = [Timing("p", n, "decision", 3.0 * n**power, 0.0) for n in (10, 100, 1000)]
    assert growth(timings) == pytest.approx(factor)


def test_a_row_holds_the_lengths_in_order() -> None:
    [row] = rows([Timing("p", n, "decision", n / 10, n / 5) for n in (100, 10)])
    assert row == ["p", "decision", "1.0 (2.0)", "10.0 (20.0)", "× 10.00"]
