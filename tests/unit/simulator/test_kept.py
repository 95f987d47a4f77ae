"""KV kept for paused runs, by hand: who takes it over, who waits for it, when it goes, and what that is charged."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.core.policy import Policy
from justitia_simulator.engine import Engine
from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.prediction import TRUE
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.records import RequestResult
from justitia_simulator.timing import LinearTiming
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, TenantId

# A step takes 100 ms + 10 ms a prompt token + 20 ms a decoding request + 1 ms a KV token. A full engine delivers a
# token-iteration in 100 / 40 + 1 = 3.5 ms, so reading a token again is worth holding it for 10 / 3.5 = 2.86 iterations.
TIMING = LinearTiming(0.1, 0.01, 0.02, 0.001)
DROPPING = EngineProfile("d", TIMING, 40, 1, AdmissionRule.OPTIMISTIC, token_budget=100, prefix_cache=True)
KEEPING = replace(DROPPING, keep_paused=True)


def talk(name: str, pause: float, *, tenant: str = "t", arrival: float = 0.0, tokens: int = 16) -> WorkloadRun:
    """Two turns, `pause` seconds apart; the second one finds all but one of `tokens` + 4."""
    first = WorkloadRequest(tokens, 4, context="main")
    second = WorkloadRequest(tokens + 6, 1, "main", tokens + 4, context="main")
    stages = WorkloadStage((first,)), WorkloadStage((second,), pause)
    return WorkloadRun(RunId(name), TenantId(tenant), ApplicationId("a"), arrival, stages)


def one(name: str, prompt: int, output: int, arrival: float, tenant: str = "u") -> WorkloadRun:
    stage = WorkloadStage((WorkloadRequest(prompt, output),))
    return WorkloadRun(RunId(name), TenantId(tenant), ApplicationId("a"), arrival, (stage,))


def serve(
    runs: Sequence[WorkloadRun], profile: EngineProfile, policy: str = "parrot"
) -> tuple[dict[tuple[str, int], RequestResult], Policy]:
    built = build_policy(policy, EngineTime(profile.charge))
    results = Engine(built, profile, label="x", prediction=TRUE).serve(runs)
    return {(r.run, r.stage): r for r in results.requests}, built


# b decodes all the time; c, which has come last, needs more than a leaves while it is there.
BESIDE = [one("b", 4, 16, 0.0), one("c", 20, 1, 0.6)]


def test_kv_of_a_paused_run_stays_though_others_want_its_place() -> None:
    """Without keeping, c takes it: the control."""
    found = {}
    for profile in (DROPPING, KEEPING):
        of, _ = serve([talk("a", 0.3), *BESIDE], profile)
        found[profile.keep_paused] = of["a", 1].cached_tokens
    assert found[False] < found[True] == 19


def test_it_goes_when_keeping_has_cost_as_much_as_reading_again() -> None:
    for profile, iterations, charged in ((DROPPING, 0, 0.0), (KEEPING, 3, 10 / 3.5)):
        of, policy = serve([talk("a", 60.0), *BESIDE], profile)
        waited = (of["c", 0].admitted or 0.0) - (of["a", 0].finished or 0.0)
        # b's steps take 120 ms and its 9 to 12 tokens; the third is the first that 2.86 iterations do not reach.
        assert waited == pytest.approx(iterations * 0.13, abs=0.02)
        worked = _produced(16, 4) + _produced(22 - of["a", 1].cached_tokens, 1)
        assert policy.kv_token_time[TenantId("t")] == pytest.approx(worked + 19 * charged)


def _produced(uncached: int, output: int) -> float:
    return uncached * output + output * (output + 1) / 2


def test_a_pause_that_disturbs_nobody_costs_no_more_than_reading_again() -> None:
    _, policy = serve([talk("a", 60.0), one("b", 4, 14, 0.0)], KEEPING)
    assert policy.kv_token_time[TenantId("t")] == pytest.approx(_produced(16, 4) + _produced(3, 1) + 19 * 10 / 3.5)


def test_a_run_that_ranks_before_a_paused_one_does_not_wait_for_it() -> None:
    """By run, c comes before a: its second turn is ready when a's first is over, and does not fit beside a's KV."""
    c = [WorkloadStage((WorkloadRequest(4, 1),)), WorkloadStage((WorkloadRequest(20, 1),), 0.55)]
    first = WorkloadRun(RunId("c"), TenantId("u"), ApplicationId("a"), 0.0, tuple(c))
    of, _ = serve([first, one("b", 4, 16, 0.0), talk("a", 60.0, arrival=0.001)], KEEPING)
    assert of["c", 1].ready < (of["a", 0].finished or 0.0) == of["c", 1].admitted


def test_nothing_is_waited_for_while_nothing_runs() -> None:
    of, _ = serve([talk("a", 60.0, tokens=20), one("c", 30, 1, 2.0)], KEEPING)
    assert of["c", 0].admitted == 2.0


def test_what_runs_is_not_preempted_while_kv_is_kept() -> None:
    runs = [one("b", 8, 25, 0.0), talk("a", 60.0, tokens=8)]
    of, _ = serve(runs, KEEPING)
    assert of["b", 0].preemptions == 0


def test_a_run_that_ends_keeps_nothing() -> None:
    stage = WorkloadStage((WorkloadRequest(20, 2, context="main"),))
    done = WorkloadRun(RunId("a"), TenantId("t"), ApplicationId("a"), 0.0, (stage,))
    of, policy = serve([done, one("b", 4, 20, 0.0), one("c", 30, 1, 0.6)], KEEPING)
    assert of["c", 0].admitted is not None
    assert policy.kv_token_time[TenantId("t")] == _produced(20, 2)


def test_the_adversary_who_pauses_for_ever_pays_and_holds_nobody_up_for_long() -> None:
    """Twenty runs that never come back, each with a context of half the engine, beside a tenant of small requests."""
    hoarder = [talk(f"h{i}", 1000.0, tenant="hoarder", arrival=0.1 * i, tokens=18) for i in range(20)]
    light = [one(f"l{i}", 12, 2, 0.5 + i, tenant="light") for i in range(20)]
    waits = {}
    for profile in (DROPPING, KEEPING):
        of, policy = serve([*hoarder, *light], profile, "tiered-justitia")
        waits[profile.keep_paused] = [
            (r.first_token or 0.0) - r.ready for (name, _), r in of.items() if name.startswith("l")
        ]
        charged = policy.service[TenantId("hoarder")]
    assert max(waits[True]) < max(waits[False]) + 3 * 0.2
    assert charged > 0


@pytest.mark.parametrize("wrong", [{"prefix_cache": False}, {"admission": AdmissionRule.RESERVE}])
def test_a_profile_that_could_not_keep_anything_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="keep_paused needs a prefix_cache and admission 'optimistic'"):
        replace(KEEPING, **wrong)
