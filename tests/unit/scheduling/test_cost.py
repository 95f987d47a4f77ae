"""What a step is charged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import (
    BLOCK,
    RECENT_BLOCKS,
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


def test_a_stall_counts_with_the_steps_around_it_for_as_long_as_it_is_recent() -> None:
    cost = EngineTime(StepTime(0.05, 0.0, 0.0))

    def blocks(count: int) -> None:
        for _ in range(count * 64):
            cost.step([work(produced=BLOCK // 64)], 0.05 * BLOCK / 64, 1)

    blocks(1)
    assert cost.in_engine(1000, 20) == pytest.approx(20 * 0.05)
    cost.step([work(produced=BLOCK)], 0.05 * BLOCK + 6.4, 1)
    stalled = 20 * 0.05 * (1 + 6.4 / (0.05 * BLOCK))
    assert cost.in_engine(1000, 20) == pytest.approx(stalled)
    blocks(RECENT_BLOCKS)
    assert cost.in_engine(1000, 20) == pytest.approx(stalled)
    blocks(RECENT_BLOCKS)
    assert cost.in_engine(1000, 20) == pytest.approx(20 * 0.05)


def test_an_engine_that_is_faster_than_its_coefficients_does_not_lower_u() -> None:
    cost = EngineTime(StepTime(0.05, 0.0, 0.0))
    cost.step([work(produced=BLOCK)], 0.01 * BLOCK, 1)
    assert cost.in_engine(1000, 20) == pytest.approx(20 * 0.05)


@pytest.mark.parametrize("cost", [KVTokenTimeCost(), ProfiledCost()], ids=lambda cost: cost.unit)
def test_what_is_shared_with_others_is_charged_to_nobody_again(cost: CostModel) -> None:
    shared = Work(Progress(RequestId("q"), produced=3), 100, 5, cached=40)
    assert cost.step([shared], None, 1) == pytest.approx(cost.step([work(60, 5, produced=3)], None, 1))


def test_u_of_the_profiled_cost_is_a_prompt_and_the_dearest_output_of_a_full_engine() -> None:
    assert ProfiledCost().in_engine(1000, 10) == pytest.approx(11.46 + (2.1 + 10 * 0.04) * 1000)


def test_u_of_engine_time_is_the_longest_requests_steps_and_a_full_engines_tokens() -> None:
    """A step of a full engine takes c0 + c_kv M, and c_tok for each request that makes a token."""
    cost = EngineTime(STEP)
    assert cost.in_engine(1000, 20) == pytest.approx(20 * (0.01 + 0.001 + 0.0001 * 1000) + 0.001 * 1000)
    cost.step([work(), work(), work()], 0.01, 3)
    assert cost.in_engine(1000, 20) == pytest.approx(20 * (0.01 + 3 * 0.001 + 0.0001 * 1000) + 0.001 * 1000)


def test_reading_a_prompt_token_is_worth_what_a_full_engine_would_have_delivered_meanwhile() -> None:
    assert EngineTime(STEP).prompt_work(1000) == pytest.approx(0.001 / (0.01 / 1000 + 0.0001))


def test_keeping_all_of_the_kv_space_for_an_iteration_costs_a_full_iteration() -> None:
    assert EngineTime(STEP).keeping(1000, 1000) == pytest.approx(0.01 + 1000 * 0.0001)
    assert KVTokenTimeCost().keeping(1000, 1000) == 1000
    assert WeightedTokens().keeping(1000, 1000) == 0


def test_where_step_times_are_not_known_reading_is_worth_nothing() -> None:
    assert EngineTime(StepTime(0.0, 0.001, 0.0)).prompt_work(1000) == 0
    assert KVTokenTimeCost().prompt_work(1000) == 0


def test_later_steps_are_charged_by_the_step_time_that_was_learned() -> None:
    cost = EngineTime(STEP)
    cost.learn_step_time(StepTime(per_step=0.5, per_token=0.0, per_kv_token=0.0))
    assert cost.step([work()], None, 2) == [0.25]


def test_the_fixed_part_of_a_step_that_was_seen_is_shared_by_those_in_it_and_not_by_others_that_run() -> None:
    cost = EngineTime(StepTime(per_step=1.0, per_token=0.5, per_kv_token=0.0))
    large, small = cost.step([work(prefilled=9), work()], 12.0, running=50)
    assert (large, small) == (pytest.approx(12 * 5.5 / 6.5), pytest.approx(12 * 1.0 / 6.5))


@given(
    p=st.integers(1, 500),
    before=st.integers(0, 100),
    produced=st.integers(1, 9),
    running=st.integers(1, 5),
)
def test_progress_of_several_tokens_is_charged_as_as_many_steps_alike(
    p: int, before: int, produced: int, running: int
) -> None:
    cost = EngineTime(STEP)
    single = sum(cost.step([work(p, before + i)], None, running)[0] for i in range(produced))
    assert cost.step([work(p, before, produced=produced)], None, running) == [pytest.approx(single)]


@given(
    p=st.integers(1, 500),
    before=st.integers(0, 100),
    again=st.integers(1, 600),
    produced=st.integers(1, 32),
    running=st.integers(1, 5),
)
def test_what_comes_back_after_a_preemption_is_charged_alike_whether_its_steps_are_told_together_or_apart(
    p: int, before: int, again: int, produced: int, running: int
) -> None:
    cost = EngineTime(STEP)
    apart = cost.step([work(p, before, recomputed=again)], None, running)[0]
    apart += sum(cost.step([work(p, before + i)], None, running)[0] for i in range(1, produced))
    assert cost.step([work(p, before, produced=produced, recomputed=again)], None, running) == [pytest.approx(apart)]


def test_the_step_that_reads_again_is_charged_for_its_new_token() -> None:
    (charge,) = EngineTime(STEP).step([work(100, before=20, recomputed=119)], None, 1)
    assert charge == pytest.approx((0.01 + 0.001 * 120 + 0.0001 * 120) / 120)


def test_sixteen_tokens_after_a_preemption_are_charged_for_their_steps() -> None:
    plain, again = (EngineTime(STEP).step([work(300, produced=16, recomputed=lost)], None, 1)[0] for lost in (0, 300))
    assert again > 0.9 * plain


def test_a_chunk_of_a_prompt_is_charged_as_one_step() -> None:
    (charge,) = EngineTime(STEP).step([work(prompt=100, prefilled=30, produced=0)], None, 1)
    assert charge == pytest.approx(0.01 + 0.001 * 30 + 0.0001 * 100)


def test_of_work_half_of_which_was_done_before_half_is_charged() -> None:
    cost = EngineTime(StepTime(per_step=0.0, per_token=1.0, per_kv_token=0.0))
    half, other = cost.step([work(prefilled=4, produced=1, recomputed=5), work(prefilled=9)], 10.0, 2)
    assert (half, other) == (pytest.approx(2.5), pytest.approx(5.0))


def test_a_whole_request_shares_the_fixed_part_with_those_beside_it() -> None:
    cost = EngineTime(STEP)
    alone, beside = cost.whole(100, 10, 1), cost.whole(100, 10, 4)
    assert alone - beside == pytest.approx(0.01 * 10 * 3 / 4)
    assert cost.whole(100, 10, 0) == alone


def test_a_request_that_produces_nothing_is_expected_to_cost_nothing() -> None:
    assert EngineTime(STEP).whole(100, 0, 1) == 0
