"""The simulated engine: small cases by hand, then what must hold for every policy."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.baselines.registry import POLICIES, build_policy
from justitia_scheduling.core.cost import EngineTime, KVTokenTimeCost
from justitia_scheduling.core.model import Request
from justitia_scheduling.policies.fcfs import FCFS
from justitia_simulator.engine import DoesNotFitError, Engine
from justitia_simulator.prediction import MEAN, find_prediction
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.records import PolicyResults
from justitia_simulator.timing import Coefficients, SeparateTiming
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from support.examples import examples

# A prefill takes 1 s + 10 ms a token, a decode step 100 ms + 10 ms a request + 1 ms a KV token.
ROUND = EngineProfile("round", SeparateTiming(Coefficients(0.1, 0.01, 0.001), Coefficients(1.0, 0.01)), kv_tokens=100)


def run(
    name: str, *stages: Sequence[tuple[int, int]], tenant: str = "t", arrival: float = 0.0, delay: float = 0.0
) -> WorkloadRun:
    built = tuple(
        WorkloadStage(tuple(WorkloadRequest(p, d) for p, d in stage), delay if index else 0.0)
        for index, stage in enumerate(stages)
    )
    return WorkloadRun(name, tenant, "app", arrival, built)


def serve(runs: Sequence[WorkloadRun], policy: str = "fcfs", profile: EngineProfile = ROUND) -> PolicyResults:
    return Engine(build_policy(policy, EngineTime(profile.charge)), profile, label=policy).serve(runs)


def times(results: PolicyResults) -> list[tuple[str, float, float, float, float]]:
    return [
        (r.run, round(r.ready, 6), round(r.admitted or 0, 6), round(r.first_token or 0, 6), round(r.finished or 0, 6))
        for r in results.requests
    ]


def test_one_request_takes_its_prefill_and_a_decode_step_per_further_token() -> None:
    # Prefill 1 + 10 * .01 = 1.1 s yields the first token; then steps that read 11 and 12 KV tokens.
    assert times(serve([run("a", [(10, 3)])])) == [("a", 0, 0, 1.1, round(1.1 + 0.11 + 0.011 + 0.11 + 0.012, 6))]


def test_a_request_of_one_token_ends_with_its_prefill() -> None:
    assert times(serve([run("a", [(10, 1)])])) == [("a", 0, 0, 1.1, 1.1)]


def test_two_requests_share_prefill_and_decode_steps() -> None:
    # Prefill of 30 tokens 1.3 s; a step for two that read 11 + 21.
    end = round(1.3 + 0.12 + 0.032, 6)
    assert times(serve([run("a", [(10, 2)]), run("b", [(20, 2)])])) == [("a", 0, 0, 1.3, end), ("b", 0, 0, 1.3, end)]


def test_the_head_that_does_not_fit_blocks_what_would_fit_behind_it() -> None:
    runs = [run("a", [(60, 2)]), run("b", [(50, 2)], arrival=0.1), run("c", [(5, 2)], arrival=0.2)]
    by_run = {name: (admitted, finished) for name, _, admitted, _, finished in times(serve(runs))}
    assert by_run["b"][0] == by_run["a"][1]
    assert by_run["c"][0] == by_run["b"][0]


def test_what_arrives_during_a_prefill_is_looked_at_after_the_next_decode_step() -> None:
    results = times(serve([run("a", [(10, 5)]), run("b", [(10, 1)], arrival=0.5)]))
    assert results[1][:3] == ("b", 0.5, 1.1 + 0.11 + 0.011)


def test_a_stage_starts_its_delay_after_the_last_request_of_the_stage_before() -> None:
    results = serve([run("a", [(10, 1), (10, 2)], [(10, 1)], delay=3.0)])
    [first, second, third] = results.requests
    assert third.ready == pytest.approx(max(first.finished or 0, second.finished or 0) + 3.0)
    assert results.runs[0].jct == third.finished


def test_new_requests_wait_for_the_engine_to_look_at_the_queue() -> None:
    lazy = msgspec.structs.replace(ROUND, decode_steps_per_admission=10)
    runs = [run("a", [(10, 20)]), run("b", [(10, 1)], arrival=1.15)]
    eager_b, lazy_b = (times(serve(runs, profile=p))[1][2] for p in (ROUND, lazy))
    assert eager_b < lazy_b < 1.1 + 10 * (0.11 + 0.022)


def test_the_policy_hears_of_a_request_with_the_step_under_way_though_nobody_looks_at_the_queue_then() -> None:
    class Listening(FCFS):
        heard: ClassVar[dict[str, float]] = {}

        def request_arrived(self, request: Request, now: float) -> None:
            self.heard[request.id] = now
            super().request_arrived(request, now)

    lazy = msgspec.structs.replace(ROUND, decode_steps_per_admission=10)
    runs = [run("a", [(10, 20)]), run("b", [(10, 1)], arrival=1.15)]
    Engine(Listening(KVTokenTimeCost()), lazy, label="fcfs").serve(runs)
    assert Listening.heard == {"a#0": 0.0, "b#0": pytest.approx(1.1 + 0.11 + 0.011)}


def test_once_the_wait_is_over_the_queue_is_looked_at_before_every_step_until_something_is_admitted() -> None:
    """Ten decode steps after a's prefill end at 2.366; b arrives after three more, c right after b's admission."""
    lazy = msgspec.structs.replace(ROUND, decode_steps_per_admission=10)
    steps = [1.1]
    for kv in range(11, 40):
        steps.append(steps[-1] + 0.11 + kv * 0.001)
    runs = [run("a", [(10, 25)]), run("b", [(10, 20)], arrival=steps[13] - 0.01), run("c", [(1, 1)], arrival=steps[14])]
    a, b, c = sorted(times(serve(runs, profile=lazy)))
    assert b[2] == pytest.approx(steps[13])
    # Prefill of b takes 1.1 s; then ten steps of both, which read a's 24 and b's 11 tokens first.
    both = sum(0.12 + (24 + 11 + 2 * i) * 0.001 for i in range(10))
    assert c[2] == pytest.approx(steps[13] + 1.1 + both)
    assert a[2] == 0.0


def test_a_head_that_did_not_fit_is_looked_at_again_as_soon_as_a_request_has_finished() -> None:
    lazy = msgspec.structs.replace(ROUND, decode_steps_per_admission=10)
    runs = [run("a", [(60, 13)]), run("b", [(60, 2)], arrival=0.1)]
    a, b = times(serve(runs, profile=lazy))
    assert b[2] == a[4]
    runs = [run("a", [(20, 13)]), run("long", [(20, 30)]), run("b", [(30, 2)], arrival=0.1)]
    by_run = {name: (admitted, end) for name, _, admitted, _, end in times(serve(runs, profile=lazy))}
    assert by_run["b"][0] == by_run["a"][1]


def test_a_request_larger_than_the_engine_is_refused_before_anything_is_served() -> None:
    with pytest.raises(DoesNotFitError, match="run 'b' needs 101 tokens of KV and the engine has 100"):
        serve([run("a", [(10, 1)]), run("b", [(100, 1)])])


@pytest.mark.parametrize(("prediction", "cost"), [("true", 10 * 3 + 6), ("mean", None), ("none", 100_000.0)])
def test_the_policy_is_told_a_runs_cost_as_asked(prediction: str, cost: float | None) -> None:
    told = find_prediction(prediction).tell([run("a", [(10, 3)])])
    assert told["a"].cost == cost


def test_the_mean_prediction_prefers_what_the_workload_says() -> None:
    assert MEAN.tell([replace(run("a", [(10, 3)]), predicted_cost=7.0)])["a"].cost == 7.0


def test_charges_in_engine_time_sum_to_the_time_the_engine_was_busy() -> None:
    results = serve([run("a", [(10, 4)]), run("b", [(20, 7)], tenant="u")])
    final = {s.tenant: s.service for s in results.service}
    assert sum(final.values()) == pytest.approx(max(r.finished or 0 for r in results.requests))


STAGE = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=3)
DRAWN = st.tuples(
    st.lists(STAGE, min_size=1, max_size=3),
    st.sampled_from("tuv"),
    st.floats(0, 30),
    st.sampled_from([0.0, 0.5, 5.0]),
)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@examples(40)
@given(drawn=st.lists(DRAWN, min_size=1, max_size=12))
def test_every_request_is_served_once_in_the_right_order_within_the_kv_space(policy: str, drawn: list[tuple]) -> None:  # type: ignore[type-arg]
    runs = [
        run(f"r{i}", *stages, tenant=tenant, arrival=arrival, delay=delay)
        for i, (stages, tenant, arrival, delay) in enumerate(drawn)
    ]
    results = serve(runs, policy)
    assert sorted((r.run, r.stage, r.prompt_tokens, r.output_tokens) for r in results.requests) == sorted(
        (one.id, stage, r.prompt_tokens, r.output_tokens)
        for one in runs
        for stage, s in enumerate(one.stages)
        for r in s.requests
    )
    for r in results.requests:
        assert r.admitted is not None
        assert r.first_token is not None
        assert r.finished is not None
        assert r.arrival <= r.ready <= r.admitted < r.first_token <= r.finished
    for moment in (r.admitted for r in results.requests):
        held = [
            r.prompt_tokens + r.output_tokens
            for r in results.requests
            if (r.admitted or 0) <= (moment or 0) < (r.finished or 0)
        ]
        assert sum(held) <= ROUND.kv_tokens
    assert serve(runs, policy) == results
