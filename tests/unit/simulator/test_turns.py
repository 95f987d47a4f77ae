"""Sessions of agents: figures of recorded ones come out again, and each prompt goes on with what was said."""

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime
from justitia_simulator.contexts import Contexts
from justitia_simulator.engine import Engine
from justitia_simulator.profiles import PROFILES
from justitia_simulator.turns import LONGEST, LONGEST_PAUSE, ideal_seconds, reusable, turns
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, parse_workload, workload_lines

H100 = PROFILES["h100-llama2-7b"]
SESSIONS = turns(400, seed=1, load=1.0, profile=H100, tenants={"a": 1, "b": 1})


def of(application: str) -> list[WorkloadRun]:
    return [run for run in SESSIONS if run.application == application]


def parent(run: WorkloadRun) -> list[WorkloadRequest]:
    return [r for r in run.requests if r.context == "c0"]


def test_nine_of_ten_prompt_tokens_and_more_are_in_a_prefix() -> None:
    assert 0.94 < reusable(SESSIONS) < 0.97


def test_coding_sessions_are_as_long_as_recorded_ones() -> None:
    """Recorded: 30 calls in the median and 57 at the 90th percentile; the limit of the context ends the longest."""
    count = [len(parent(run)) for run in of("coding")]
    assert np.median(count) == pytest.approx(30, rel=0.15)
    assert 38 < np.percentile(count, 90) < 57


def test_contexts_grow_as_recorded_ones_do() -> None:
    """Recorded: 12.3 k tokens in the first prompt and 2.3 k more a turn, 520 of them output."""
    first = [parent(run)[0].prompt_tokens for run in of("coding")]
    assert np.median(first) == pytest.approx(12_300, rel=0.05)
    turn = [r for run in SESSIONS for r in run.requests]
    assert np.mean([r.output_tokens for r in turn]) == pytest.approx(520, rel=0.05)
    later = [r for run in SESSIONS for r in parent(run)[1:]]
    new = np.mean([r.prompt_tokens - r.prefix_tokens for r in later])
    assert new == pytest.approx(2_300 - 520, rel=0.25)


def test_a_users_message_to_an_assistant_starts_as_many_turns_as_recorded_ones() -> None:
    """Recorded: 7.8 calls after a tool on average, 20 at the 90th percentile."""
    count = [len(parent(run)) for run in of("assistant")]
    assert np.mean(count) == pytest.approx(8.8, rel=0.3)
    assert np.percentile(count, 90) == pytest.approx(21, rel=0.3)


def test_half_of_the_sessions_have_subagents_whose_turns_come_before_the_parent_goes_on() -> None:
    having = [run for run in SESSIONS if len({r.context for r in run.requests}) > 1]
    assert len(having) / len(SESSIONS) == pytest.approx(0.5, abs=0.07)
    for run in having:
        assert run.requests[0].context == run.requests[-1].context == "c0"
        for before, after in zip(run.requests, run.requests[1:], strict=False):
            if before.context != after.context == "c0":
                assert after.prompt_tokens - after.prefix_tokens >= before.output_tokens


def test_most_pauses_are_short_and_most_of_their_time_is_in_long_ones() -> None:
    pauses = np.array([s.delay for run in SESSIONS for s in run.stages[1:] if s.delay])
    assert np.median(pauses) == pytest.approx(0.4, rel=0.15)
    assert pauses.max() == LONGEST_PAUSE
    assert pauses[pauses > 10].sum() > 0.7 * pauses.sum()


@pytest.mark.parametrize("scale", [1.0, 0.02])
def test_no_context_is_longer_than_the_longest(scale: float) -> None:
    runs = turns(100, seed=2, load=1.0, profile=H100, tenants={"a": 1}, scale=scale)
    longest = max(r.prompt_tokens + r.output_tokens for run in runs for r in run.requests)
    assert 0.9 * LONGEST * scale < longest <= LONGEST * scale


def test_a_written_session_reads_back_and_its_contexts_hold() -> None:
    for run in SESSIONS[:50]:
        contexts = Contexts(run.id)
        for stage in run.stages:
            contexts.follow(stage.requests)
    lines = [msgspec.json.encode(line) for run in SESSIONS[:20] for line in workload_lines(run)]
    assert parse_workload(lines, "w") == SESSIONS[:20]


def test_the_offered_load_is_what_was_asked_for() -> None:
    for load in (0.5, 2.0):
        runs = turns(400, seed=1, load=load, profile=H100, tenants={"a": 1})
        assert ideal_seconds(runs, H100) / runs[-1].arrival == pytest.approx(load, rel=0.15)


def test_a_lone_session_finds_all_of_its_prefixes_but_what_its_blocks_leave_over() -> None:
    """Without the cache it finds nothing: the control."""
    run = turns(6, seed=3, load=1e-4, profile=H100, tenants={"a": 1}, scale=0.1)
    for cache in (True, False):
        profile = replace(H100, prefix_cache=cache)
        served = Engine(build_policy("fcfs", EngineTime(profile.charge)), profile, label="x").serve(run).requests
        found, asked = sum(r.cached_tokens for r in served), sum(r.prompt_tokens for r in served)
        if cache:
            assert reusable(run) * 0.95 < found / asked < reusable(run)
        else:
            assert found == 0


@pytest.mark.parametrize("scale", [0.0, 1.5])
def test_a_scale_that_is_not_a_part_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="must be more than 0 and at most 1"):
        turns(1, seed=1, load=1.0, profile=H100, tenants={"a": 1}, scale=scale)
