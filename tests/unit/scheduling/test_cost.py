"""What a step is charged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import (
    RECENT_STEPS,
    CostModel,
    EngineTime,
    KVTokenTimeCost,
    ProfiledCost,
    StepTime,
    WeightedTokens,
    Work,
)
from justitia_scheduling.core.model import Progress, kv_token_time
from justitia_vocabulary.units import RequestId

STEP = StepTime(per_step=0.01, per_token=0.001, per_kv_token=0.0001)


def work(prompt: int = 100, before: int = 0, prefilled: int = 0, produced: int = 1, recomputed: int = 0) -> Work:
    return Work(Progress(RequestId("q"), prefilled, produced, recomputed), prompt, before)


@given(p=st.integers(1, 500), d=st.integers(1, 200), chunk=st.integers(1, 7))
def test_a_request_ends_up_charged_its_kv_token_time_however_its_tokens_are_chunked(p: int, d: int, chunk: int) -> None:
    charged, before = 0.0, 0
    while before < d:
        n = min(chunk, d - before)
        charged += KVTokenTimeCost().step([work(p, before, produced=n)], None, 1)[0]
        before += n
    assert charged == kv_token_time(p, d) == p * d + d * (d + 1) / 2


def test_weighted_tokens_charge_the_prompt_at_admission_and_two_for_an_output_token() -> None:
    assert WeightedTokens().admission(256) == 256
    assert WeightedTokens().step([work(produced=3)], None, 1) == [6]


@given(
    parts=st.lists(st.builds(work, prefilled=st.integers(0, 512), before=st.integers(0, 512)), min_size=1, max_size=20),
    duration=st.floats(1e-4, 10),
)
def test_engine_time_charges_sum_to_the_time_the_engine_was_busy(parts: list[Work], duration: float) -> None:
    assert sum(EngineTime(STEP).step(parts, duration, len(parts))) == pytest.approx(duration)


def test_engine_time_charges_a_long_prefill_more_than_a_decode_beside_it() -> None:
    prefill, decode = EngineTime(STEP).step([work(prefilled=400), work()], 0.5, 2)
    assert prefill > 10 * decode


def test_recomputation_is_charged_to_nobody() -> None:
    again, decode = EngineTime(STEP).step([work(produced=0, recomputed=99), work()], 1.0, 2)
    assert again == 0
    assert 0 < decode < 1


def test_an_unseen_step_is_charged_by_the_coefficients_with_the_fixed_part_shared() -> None:
    assert EngineTime(STEP).step([work(prompt=100)], None, 4) == [pytest.approx(0.01 / 4 + 0.001 + 0.01)]


@given(p=st.integers(1, 4000), chunks=st.lists(st.integers(1, 90), min_size=1, max_size=30))
def test_a_request_ends_up_charged_its_profiled_cost_however_its_tokens_are_chunked(p: int, chunks: list[int]) -> None:
    cost = ProfiledCost()
    charged, before = cost.admission(p), 0
    for n in chunks:
        charged += cost.step([work(p, before, produced=n)], None, 1)[0]
        before += n
    assert charged == pytest.approx(2.1 * p + before + 0.04 * p * before + 0.032 * before**2 + 11.46)
    assert cost.whole(p, before, 1) == pytest.approx(charged)


@pytest.mark.parametrize(
    ("prompt", "output", "measured"),
    [(64, 256, 0.0149 + 0.3003), (256, 128, 0.0543 + 0.1902), (256, 256, 0.0558 + 0.5011), (512, 256, 0.1091 + 0.7604)],
)
def test_the_profiled_cost_is_the_measured_time_in_tenths_of_a_millisecond(
    prompt: int, output: int, measured: float
) -> None:
    """Seconds of prefill and decode per request that VTC's authors measured on an A10G."""
    assert ProfiledCost().whole(prompt, output, 1) * 1e-4 == pytest.approx(measured, rel=0.05)


@given(requests=st.lists(st.tuples(st.integers(1, 300), st.integers(1, 200)), min_size=1, max_size=30))
def test_what_the_engine_can_still_be_charged_covers_all_output_and_the_largest_admission(
    requests: list[tuple[int, int]],
) -> None:
    for cost in (ProfiledCost(), WeightedTokens(), KVTokenTimeCost()):
        output = sum(cost.whole(p, d, 1) - cost.admission(p) for p, d in requests)
        u = cost.in_engine(sum(p + d for p, d in requests), max(d for _, d in requests))
        assert output + max(cost.admission(p) for p, _ in requests) <= u + 1e-6


@pytest.mark.parametrize("cost", [KVTokenTimeCost(), WeightedTokens(), EngineTime(STEP)], ids=lambda cost: cost.unit)
def test_a_whole_request_alone_is_predicted_to_cost_what_its_steps_charge(cost: CostModel) -> None:
    charged = cost.admission(40)
    for i in range(12):
        charged += cost.step([work(40, i, prefilled=0 if i else 40)], None, 1)[0]
    assert cost.whole(40, 12, 1) == pytest.approx(charged)


def test_one_stall_counts_for_as_long_as_it_is_recent() -> None:
    cost, usual, stalled = EngineTime(STEP), 0.05, 2.0

    def u_of_a_token() -> float:
        return cost.in_engine(0, 1)

    def steps(count: int) -> None:
        for _ in range(count // 10):
            cost.step([work(produced=10)], 10 * usual, 1)

    steps(100)
    assert u_of_a_token() == pytest.approx(usual)
    cost.step([work()], stalled, 1)
    steps(RECENT_STEPS)
    assert u_of_a_token() == pytest.approx(stalled)
    steps(RECENT_STEPS)
    assert u_of_a_token() == pytest.approx(usual)
