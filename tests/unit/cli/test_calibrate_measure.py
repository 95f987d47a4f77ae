"""What is planned for an engine of a given size, and what a step's duration is read from."""

import pytest

from justitia_cli.calibrate_engine import Timeline
from justitia_cli.calibrate_measure import Limits, plan_measurements, step_duration, steps_seen
from justitia_simulator.calibration import LEAST_POINTS, CalibrationError


def limits(*, longest: int = 2048, kv_tokens: int = 8192, requests: int = 64, token_budget: int = 2048) -> Limits:
    return Limits(longest, kv_tokens, requests, token_budget)


@pytest.mark.parametrize(
    "bounds",
    [
        limits(),
        limits(longest=131_072, kv_tokens=60_000),
        limits(kv_tokens=1024),
        limits(requests=4),
        limits(longest=256, kv_tokens=1 << 20, requests=256),
        limits(token_budget=64),
    ],
    ids=["tiny", "long contexts", "little KV", "few requests", "short contexts", "small chunks"],
)
def test_nothing_planned_exceeds_the_engine_and_enough_is_planned_for_a_fit(bounds: Limits) -> None:
    plan = plan_measurements(bounds, 3)
    for batch in plan.batches:
        assert batch.prompt_tokens + batch.output_tokens <= bounds.longest
        assert batch.size * (batch.prompt_tokens + batch.output_tokens) <= bounds.kv_tokens
        assert batch.size <= bounds.requests
    assert max(plan.prompts) < min(bounds.longest, bounds.kv_tokens)
    assert len(set(plan.prompts)) == len(plan.prompts) >= LEAST_POINTS
    assert len({b.size for b in plan.batches}) >= LEAST_POINTS
    assert plan.arrivals
    for each in plan.arrivals:
        alone, beside = each.batch.prompt_tokens + each.batch.output_tokens, each.prompt_tokens + 1
        assert max(alone, beside) <= bounds.longest
        assert each.batch.size * alone + each.prompts * beside <= bounds.kv_tokens
        assert each.batch.size < bounds.requests
    at_once = [max(r.prompt_tokens + r.output_tokens for r in client.requests) for client in plan.mixed]
    assert sum(at_once) <= bounds.kv_tokens
    assert max(at_once) <= bounds.longest


def test_an_engine_too_small_to_measure_is_refused() -> None:
    with pytest.raises(CalibrationError, match="too short to calibrate"):
        plan_measurements(limits(kv_tokens=200), 3)


def steady(*, first: float, step: float = 0.01, tokens: int = 60, per_chunk: int = 1) -> Timeline:
    counts = range(1, tokens + 1, per_chunk)
    return Timeline(16, 0.0, tuple((first + step * (n - 1), n) for n in counts))


def test_chunks_of_several_tokens_count_as_several_steps() -> None:
    assert step_duration([steady(first=0.1, per_chunk=4)]) == pytest.approx(0.01)


def test_only_steps_that_all_requests_share_count() -> None:
    """Alone, the first decodes in steps of 1 ms; together they take 10 ms."""
    together = steady(first=0.5)
    alone = tuple((0.5 - 0.001 * (40 - n), n) for n in range(1, 40))
    shared = tuple((0.5 + 0.01 * (n - 40), n) for n in range(40, 100))
    assert step_duration([Timeline(16, 0.0, alone + shared), together]) == pytest.approx(0.01)


def test_chunks_held_back_and_let_go_together_are_outvoted() -> None:
    moments = [(0.1 + 0.01 * (n - 1), n) for n in range(1, 61)]
    stalled = tuple((max(t, 0.45) if 21 <= n <= 35 else t, n) for t, n in moments)
    assert step_duration([Timeline(16, 0.0, stalled)]) == pytest.approx(0.01, rel=0.02)


@pytest.mark.parametrize(
    "timelines",
    [
        [steady(first=0.1), steady(first=5.0)],
        [steady(first=0.1, tokens=3)],
        [Timeline(16, 0.0, tuple((1.0, n) for n in range(1, 61)))],
    ],
    ids=["never together", "too few steps", "all at one moment"],
)
def test_a_batch_that_shows_no_steps_is_left_out(timelines: list[Timeline]) -> None:
    assert step_duration(timelines) is None


def test_the_steps_that_a_batch_saw_are_counted_from_the_first_arrival_to_the_last_ones_first_token() -> None:
    batch = [steady(first=0.1), steady(first=0.15)]
    arrived = [Timeline(16, 0.2, ((0.3, 1),)), Timeline(16, 0.2001, ((0.4, 1),))]
    assert steps_seen(batch, arrived) == pytest.approx((20, 0.2), abs=1e-9)


def test_arrivals_that_the_batch_did_not_see_whole_are_left_out() -> None:
    arrived = [Timeline(16, 0.2, ((0.9, 1),))]
    assert steps_seen([steady(first=0.1)], arrived) is None
    assert steps_seen([steady(first=0.25, tokens=90)], arrived) is None
    assert steps_seen([steady(first=0.1, tokens=90)], arrived) is not None
