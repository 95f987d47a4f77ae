"""The benchmark keeps its queue at the length it reports, and its growth tells linear from constant."""

import random
import threading

import pytest
from typer import Typer
from typer.testing import CliRunner

from justitia_benchmarks.speed import (
    LEAST_MEDIAN,
    RUNNING,
    STEP_TIME,
    Operation,
    OperationTiming,
    Traffic,
    benchmark,
    growth,
    measure,
    rows,
    timed,
)
from justitia_scheduling.baselines.registry import POLICIES, build_policy
from justitia_scheduling.core.cost import EngineTime
from justitia_vocabulary.policies import PolicyName


def timing(queued: int, median: float, seed: int = 1) -> OperationTiming:
    return OperationTiming("p", queued, Operation.AFTER_STEP, seed, median, 2 * median)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_queue_keeps_its_length_and_the_batch_its_different_tenants(policy: str) -> None:
    traffic = Traffic(build_policy(policy, EngineTime(STEP_TIME)), 200, random.Random(1))
    for _ in range(100):
        traffic.turn()
    running = traffic.policy.running.values()
    assert (len(traffic.policy.order()), len(running)) == (200, RUNNING)
    assert len({request.tenant for request in running}) == RUNNING


def test_tenants_are_a_hundredth_of_the_queue() -> None:
    assert Traffic(build_policy("fcfs", EngineTime(STEP_TIME)), 10_000, random.Random(1)).tenants == 100


def test_every_operation_is_measured() -> None:
    timings = measure(PolicyName.TIERED_JUSTITIA, [10, 100], 120, seed=1)
    assert [(t.queued, t.operation) for t in timings] == [(n, operation) for n in (10, 100) for operation in Operation]
    assert all(t.p99 >= t.median for t in timings)


def test_a_time_is_that_of_the_call_and_counts_no_sleep() -> None:
    released = threading.Event()
    threading.Timer(0.05, released.set).start()
    assert 0 < timed(lambda: None) <= timed(lambda: sum(range(1_000_000)))
    assert timed(released.wait) < 40_000_000


@pytest.mark.parametrize(("power", "factor"), [(0, 1.0), (1, 10.0), (0.5, 10**0.5)])
def test_growth_is_the_factor_per_tenfold_queue(power: float, factor: float) -> None:
    assert growth([timing(n, 3.0 * n**power) for n in (10, 100, 1000)]) == pytest.approx(factor)


def test_a_median_below_the_clock_counts_as_the_least_and_not_as_growth_without_end() -> None:
    assert growth([timing(10, -0.1), timing(100, LEAST_MEDIAN)]) == pytest.approx(1.0)


def test_a_row_holds_the_lengths_in_order_and_the_middle_of_the_seeds() -> None:
    found = [timing(100, 10.0, 1), timing(10, 1.0, 1), timing(10, 2.0, 2), timing(100, 10.0, 2)]
    assert rows([*found, timing(10, 5.0, 3), timing(100, 10.0, 3)]) == [
        ["p", "2.0 (4.0)", "10.0 (20.0)", "× 5.67 (2.00-10.00)"]
    ]


def test_an_operation_that_never_came_to_pass_at_a_length_is_a_dash() -> None:
    timings = [timing(queued, 1.0, seed) for seed in (1, 2) for queued in (10, 100)]
    assert rows([t for t in timings if t.queued == 10 or t.seed == 1])[0][1:3] == ["1.0 (2.0)", "1.0 (2.0)"]
    other = OperationTiming("q", 10, Operation.AFTER_STEP, 1, 3.0, 6.0)
    assert rows([*timings, other])[1] == ["q", "3.0 (6.0)", "-", "-"]


def test_an_unknown_policy_ends_with_code_2_and_the_names_that_are_known() -> None:
    app = Typer()
    app.command()(benchmark)
    result = CliRunner().invoke(app, ["--policy", "fastest"])
    assert result.exit_code == 2
    assert "choose one of" in result.output
