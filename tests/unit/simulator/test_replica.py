"""One engine's steps by hand: chunks, preemption, swaps, prefixes, seats, requests held back; and several engines."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.core.handover import LEAST
from justitia_simulator.engine import Engine
from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.prediction import TRUE
from justitia_simulator.profiles import EngineProfile, Front, Preemption
from justitia_simulator.records import RequestResult
from justitia_simulator.timing import LinearTiming
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, TenantId

# A step takes 100 ms + 10 ms a prompt token + 20 ms a decoding request + 1 ms a KV token that its requests had before.
CHUNKED = EngineProfile("chunked", LinearTiming(0.1, 0.01, 0.02, 0.001), kv_tokens=100, token_budget=10)
FRONTED = replace(CHUNKED, admission=AdmissionRule.OPTIMISTIC, front=Front(latency=0.05))
TIGHT = replace(CHUNKED, kv_tokens=20, token_budget=100, admission=AdmissionRule.OPTIMISTIC)


def run(name: str, *stages: Sequence[WorkloadRequest], arrival: float = 0.0) -> WorkloadRun:
    return WorkloadRun(
        RunId(name), TenantId(name), ApplicationId("a"), arrival, tuple(WorkloadStage(tuple(s)) for s in stages)
    )


def one(name: str, prompt: int, output: int, arrival: float = 0.0, prefix: int = 0) -> WorkloadRun:
    return run(name, [WorkloadRequest(prompt, output, "system" if prefix else None, prefix)], arrival=arrival)


def engine(profile: EngineProfile, policy: str = "fcfs") -> Engine:
    return Engine(build_policy(policy, EngineTime(profile.charge)), profile, label=policy, prediction=TRUE)


def served(runs: Sequence[WorkloadRun], profile: EngineProfile, policy: str = "fcfs") -> dict[str, RequestResult]:
    return {r.run: r for r in engine(profile, policy).serve(runs).requests}


def moments(result: RequestResult) -> object:
    return pytest.approx((result.admitted, result.first_token, result.finished))


def test_a_prompt_is_read_in_chunks_of_what_the_decoding_requests_leave_of_the_budget() -> None:
    of = served([one("a", 4, 4), one("b", 20, 2, arrival=0.01)], CHUNKED)
    # a's prompt .14; then 9 + 9 + 2 tokens of b beside a's further three, which read 5, 6 + 9 and 7 + 18 tokens.
    fourth = 0.14 + 0.215 + 0.225 + 0.165
    assert moments(of["a"]) == (0.0, 0.14, fourth)
    assert moments(of["b"]) == (0.14, fourth, fourth + 0.1 + 0.02 + 0.021)


def test_a_request_preempted_for_lack_of_kv_is_recomputed_at_nobodys_charge() -> None:
    simulated = engine(TIGHT)
    results = simulated.serve([one("a", 8, 6), one("b", 8, 6)])
    of = {r.run: r for r in results.requests}
    # Both prompts .26, a token each .158; 20 tokens are held, so b makes room and a's four steps read 10 to 13 tokens.
    alone = 0.26 + 0.158 + sum(0.12 + kv / 1000 for kv in (10, 11, 12, 13))
    # b's prompt and its two tokens are read again in .2, which yields the third; three more read 11 to 13.
    end = alone + 0.2 + sum(0.12 + kv / 1000 for kv in (11, 12, 13))
    assert moments(of["a"]) == (0.0, 0.26, alone)
    assert moments(of["b"]) == (0.0, 0.26, end)
    assert (of["a"].preemptions, of["b"].preemptions) == (0, 1)
    charged = {s.tenant: s.service for s in results.service}
    assert sum(charged.values()) == pytest.approx(end - 0.2 * 10 / 11)


def test_a_swapped_request_costs_the_engine_time_each_way_and_goes_on_where_it_was() -> None:
    swapping = replace(TIGHT, preemption=Preemption.SWAP, swap_per_token=0.01)
    of = served([one("a", 8, 6), one("b", 8, 6)], swapping)
    alone = 0.26 + 0.158 + 10 * 0.01 + sum(0.12 + kv / 1000 for kv in (10, 11, 12, 13))
    assert of["a"].finished == pytest.approx(alone)
    assert of["b"].finished == pytest.approx(alone + 10 * 0.01 + sum(0.12 + kv / 1000 for kv in (10, 11, 12, 13)))


def test_a_request_preempted_between_its_chunks_reads_its_prompt_again() -> None:
    small = replace(TIGHT, token_budget=5)
    # a and 1 token of b in the first step; then b reads 4 a step and is in the way of a's 13th token.
    of = served([one("a", 4, 12), one("b", 12, 2)], small)
    assert of["b"].preemptions == 1
    assert of["b"].first_token is not None
    assert of["b"].first_token > (of["a"].finished or 0.0)
    # When a has finished, b's 12 tokens are read in 5 + 5 + 2: the last chunk reads 10 tokens of KV.
    reread = (0.15 + 0.15 + 0.005) + 0.12 + 0.01
    assert of["b"].first_token - (of["a"].finished or 0.0) == pytest.approx(reread)


def test_attention_makes_each_prompt_token_cost_more_the_more_of_its_prompt_is_before_it() -> None:
    of = served([one("a", 20, 1)], replace(CHUNKED, per_attended=0.001))
    # Chunks of 10 attend to 5 tokens each on average, then to 15: in all 20^2 / 2 pairs.
    assert of["a"].finished == pytest.approx((0.2 + 0.05) + (0.2 + 0.01 + 0.15))


@pytest.mark.parametrize(("arrival", "joins"), [(0.2, 0.315), (0.3, 0.315 + 0.126)], ids=["in time", "too late"])
def test_a_front_admits_in_the_middle_of_a_step_and_what_it_admits_joins_the_first_step_after_the_latency(
    arrival: float, joins: float
) -> None:
    of = served([one("a", 4, 6), one("b", 4, 1, arrival=arrival)], FRONTED)
    read = 0.006 if arrival == 0.2 else 0.007
    assert moments(of["b"]) == (arrival, joins + 0.16 + read, joins + 0.16 + read)


def test_requests_that_come_in_one_step_are_admitted_each_at_its_moment_and_begin_together() -> None:
    of = served([one("a", 4, 60), one("b", 4, 1, arrival=1.001), one("c", 4, 1, arrival=1.002)], FRONTED)
    assert (of["b"].admitted, of["c"].admitted) == (1.001, 1.002)
    assert of["b"].first_token == of["c"].first_token


def handed_over_at_most(profile: EngineProfile, requests: int) -> int:
    """How many were in the engine without a token at some time."""
    together = [run("r", [WorkloadRequest(4, 40) for _ in range(requests)])]
    results = engine(profile).serve(together).requests
    return max(
        sum((r.admitted or 0.0) <= at.admitted < (r.first_token or 0.0) for r in results)
        for at in results
        if at.admitted is not None
    )


def test_a_front_hands_over_few_that_have_not_begun() -> None:
    """The engine has KV space for a few of the thirty at a time."""
    small = replace(FRONTED, kv_tokens=88)
    assert LEAST <= handed_over_at_most(small, 30) <= LEAST + 1


def test_a_front_hands_over_a_request_that_goes_before_all_that_have_not_begun() -> None:
    """By length, a short request overtakes those that were handed over before it came. By arrival, it does not."""
    small = replace(FRONTED, kv_tokens=50)
    long = [one(f"long{i}", 4, 40) for i in range(20)]
    for policy, overtakes in (("sjf", True), ("fcfs", False)):
        of = served([*long, one("short", 4, 2, arrival=0.5)], small, policy)
        assert (of["short"].admitted == 0.5) is overtakes
        assert (of["short"].finished < of["long7"].first_token) is overtakes


def test_behind_a_front_the_engine_preempts_the_request_of_the_largest_number() -> None:
    """Both fit until they grow. The shorter came later and goes first, so the longer makes room."""
    tight = replace(FRONTED, kv_tokens=24, token_budget=100, front=Front(0.0))
    of = served([one("long", 8, 14), one("short", 8, 6, arrival=0.01)], tight, "sjf")
    assert (of["long"].preemptions, of["short"].preemptions) == (1, 0)


def test_a_kept_prefix_is_not_read_again() -> None:
    keeping = replace(CHUNKED, block_size=4, prefix_cache=True)
    of = served([one("a", 9, 1, prefix=8), one("b", 9, 1, arrival=1.0, prefix=8)], keeping)
    assert of["a"].finished == pytest.approx(0.1 + 0.09)
    assert of["b"].finished == pytest.approx(1.0 + 0.1 + 0.01 + 0.008)


def test_a_turn_reads_only_what_it_adds_to_the_conversation() -> None:
    keeping = replace(CHUNKED, block_size=4, prefix_cache=True)
    turns = [[WorkloadRequest(8, 4, context="main")], [WorkloadRequest(15, 1, "main", 12, context="main")]]
    first, second = engine(keeping).serve([run("a", *turns)]).requests
    # The token that the first turn yielded last is not in the KV: 8 of its 12 are found, and 7 read.
    assert (first.cached_tokens, second.cached_tokens) == (0, 8)
    assert second.finished == pytest.approx((first.finished or 0.0) + 0.1 + 0.07 + 0.008)


def test_no_more_requests_run_than_there_are_seats() -> None:
    of = served([one("a", 4, 3), one("b", 4, 1)], replace(CHUNKED, max_requests=1))
    assert of["b"].admitted == of["a"].finished


def test_a_long_request_gives_way_to_a_short_one_and_comes_back() -> None:
    seat = replace(CHUNKED, max_requests=1, admission=AdmissionRule.OPTIMISTIC)
    of = served([one("a", 10, 20), one("b", 5, 2, arrival=0.1)], seat, "srpt")
    # a's prompt takes .2; b waits for no more than that, then runs alone.
    assert moments(of["b"]) == (0.2, 0.2 + 0.15, 0.35 + 0.12 + 0.006)
    assert (of["a"].preemptions, of["a"].first_token) == (1, pytest.approx(0.2))
    # a's 11 tokens are read again in 10 + 1; the rest of its 20 tokens follow.
    again = 0.476 + 0.2 + (0.1 + 0.01 + 0.01) + sum(0.12 + kv / 1000 for kv in range(12, 30))
    assert of["a"].finished == pytest.approx(again)


def test_without_optimistic_admission_nothing_gives_way() -> None:
    of = served([one("a", 10, 20), one("b", 5, 2, arrival=0.1)], replace(CHUNKED, max_requests=1), "srpt")
    assert of["b"].admitted == of["a"].finished
    assert of["a"].preemptions == 0


def test_uniboost_takes_a_seat_back_once_a_request_has_crossed_a_threshold() -> None:
    """Its steps last a millisecond: where they last seconds, gamma makes it serve in order of arrival."""
    fast = LinearTiming(per_step=1e-3, per_prefill_token=0.0, per_decode=0.0, per_kv_token=0.0)
    seat = replace(CHUNKED, timing=fast, kv_tokens=8000, max_requests=1, admission=AdmissionRule.OPTIMISTIC)
    of = served([one("a", 10, 6000), one("b", 5, 2, arrival=0.1)], seat, "uniboost")
    assert of["a"].preemptions == 1
    assert (of["b"].admitted or 0.0) < (of["a"].finished or 0.0)


def test_requests_over_the_limit_wait_for_the_next_minute_though_nobody_runs() -> None:
    requests = [WorkloadRequest(1, 1)] * 41
    results = engine(CHUNKED, "rpm").serve([run("a", requests)]).requests
    admitted = sorted(r.admitted or 0.0 for r in results)
    assert admitted[19] < 60.0
    assert (admitted[20], admitted[40]) == (60.0, 120.0)


def test_a_request_goes_to_the_engine_with_the_fewest_tokens_outstanding() -> None:
    policies = [build_policy("fcfs", EngineTime(CHUNKED.charge)) for _ in range(2)]
    two = Engine(policies, replace(CHUNKED, max_requests=1), label="two", prediction=TRUE)
    of = {r.run: r for r in two.serve([one("a", 9, 9), one("b", 5, 2), one("c", 1, 1, arrival=0.05)]).requests}
    assert (of["a"].admitted, of["b"].admitted) == (0.0, 0.0)
    assert of["c"].admitted == of["b"].finished


@pytest.mark.parametrize("sticky", [True, False])
def test_later_stages_stay_with_the_first_ones_engine_only_if_sticky(sticky: bool) -> None:
    policies = [build_policy("fcfs", EngineTime(CHUNKED.charge)) for _ in range(2)]
    heard: list[list[str]] = [[], []]
    for policy, log in zip(policies, heard, strict=True):
        _listen(policy, log)
    stages = [[WorkloadRequest(1, 1)], [WorkloadRequest(1, 1)]]
    # When a's second stage is ready, engine 0 has b, which came meanwhile.
    runs = [run("a", *stages), one("c", 9, 1), one("b", 9, 9, arrival=0.05)]
    Engine(policies, CHUNKED, label="two", sticky=sticky, prediction=TRUE).serve(runs)
    assert heard[0][:2] == ["arrived a", "arrived b"]
    assert ("arrived a" in heard[1]) is not sticky
    for policy, log in zip(policies, heard, strict=True):
        assert not policy.runs
        assert sorted(e.removeprefix("ended ") for e in log if e.startswith("ended")) == sorted(
            e.removeprefix("arrived ") for e in log if e.startswith("arrived")
        )


def _listen(policy: object, log: list[str]) -> None:
    arrived, ended = policy.run_arrived, policy.run_ended  # type: ignore[attr-defined]

    def on_arrived(announced: object, now: float) -> None:
        log.append(f"arrived {announced.id}")  # type: ignore[attr-defined]
        arrived(announced, now)

    def on_ended(name: str, now: float) -> None:
        log.append(f"ended {name}")
        ended(name, now)

    policy.run_arrived, policy.run_ended = on_arrived, on_ended  # type: ignore[attr-defined]
