"""The bench of sessions on a real engine sizes them to the engine, and says how near the simulator comes."""

import json
import math
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from justitia_benchmarks.engine.calibrated import Calibrated
from justitia_benchmarks.engine.measure import FCFS as FCFS_RUNS
from justitia_benchmarks.engine.measure import RUN_VTC, STOCK
from justitia_benchmarks.engine.plan import WHOLE as WHOLE_RUNS
from justitia_benchmarks.engine.plan import EngineCell
from justitia_benchmarks.engine.simulated import (
    Outcome,
    Pair,
    rankings,
    ratio,
    simulate,
    simulated_runs,
    simulated_sessions,
    within,
)
from justitia_benchmarks.engine.turns import (
    FORGETTING,
    KEEPING,
    LOAD,
    QUICK,
    SCALE,
    SCHEDULERS,
    SPACE,
    VTC,
    WAYS,
    WHOLE,
    WHOLE_ONES,
    TurnsCell,
    TurnsPlan,
    TurnsWay,
    cells,
    draw,
    sized,
)
from justitia_benchmarks.engine.turns_serving import TurnsMeasured
from justitia_benchmarks.reports.engine_turns import write_turns_document
from justitia_simulator import turns
from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.timing import LinearTiming
from justitia_simulator.turns import ideal_seconds


def profile(slower: float = 1.0) -> EngineProfile:
    """Of the small model on a CPU."""
    timing = LinearTiming(1.7e-3 * slower, 1.7e-5 * slower, 4e-5 * slower, 1.4e-7 * slower)
    return EngineProfile(
        "tiny",
        timing,
        SPACE.tokens,
        block_size=SPACE.block,
        admission=AdmissionRule.OPTIMISTIC,
        token_budget=2048,
        max_requests=64,
        per_attended=1.5e-8 * slower,
        prefix_cache=True,
    )


ENGINE = Calibrated(profile(), latency=0.005, error=0.1, check=-0.02)


# What is served.


@pytest.mark.parametrize("plan", [QUICK, WHOLE], ids=["quick", "whole"])
@pytest.mark.parametrize("slower", [4.0, 1.0, 0.25], ids=["slow", "as measured", "fast"])
def test_an_engine_has_enough_sessions_however_fast_it_is(plan: TurnsPlan, slower: float) -> None:
    engine = profile(slower)
    count = sized(plan, engine).sessions
    assert count >= plan.sessions
    assert ideal_seconds(draw(count, 1, engine), engine) >= plan.seconds
    if count > plan.sessions:
        assert ideal_seconds(draw(count, 1, engine), engine) < 2 * plan.seconds


def test_sessions_as_many_as_at_least_would_be_too_few_for_a_fast_engine() -> None:
    """Negative control: the number alone does not give an engine enough to do."""
    engine = profile(0.25)
    assert ideal_seconds(draw(WHOLE.sessions, 1, engine), engine) < WHOLE.seconds / 3


def test_the_engine_has_room_for_four_of_the_longest_contexts_and_takes_each_of_them() -> None:
    assert SPACE.tokens == pytest.approx(4 * turns.LONGEST * SCALE, rel=0.1)
    requests = [r for seed in (1, 2, 3) for run in draw(60, seed, profile()) for r in run.requests]
    assert max(r.prompt_tokens + r.output_tokens for r in requests) <= SPACE.longest


def test_sessions_come_at_the_load_and_pause_as_long_as_the_engine_is_slow() -> None:
    fast, slow = (draw(200, 1, profile(slower)) for slower in (1.0, 2.0))
    assert fast[-1].arrival == pytest.approx(ideal_seconds(fast, profile()) / LOAD, rel=0.25)
    assert slow[-1].arrival == pytest.approx(2 * fast[-1].arrival, rel=0.01)
    paused = [sum(stage.delay for run in runs for stage in run.stages) for runs in (fast, slow)]
    assert paused[1] == pytest.approx(2 * paused[0], rel=0.01)
    whole = turns.turns(200, seed=1, load=LOAD, profile=WHOLE_ONES, tenants={"a": 1.0}, scale=1.0)
    part = sum(stage.delay for run in whole for stage in run.stages) / ideal_seconds(whole, WHOLE_ONES)
    assert paused[0] / ideal_seconds(fast, profile()) == pytest.approx(part, rel=0.01)


@pytest.mark.parametrize("plan", [QUICK, WHOLE], ids=["quick", "whole"])
def test_each_way_of_a_seed_follows_the_others_and_has_prompts_of_its_own(plan: TurnsPlan) -> None:
    planned = list(cells(plan))
    assert [cell.seed for cell in planned] == sorted(cell.seed for cell in planned)
    assert {(cell.seed, cell.way) for cell in planned} == {(s + 1, w) for s in range(plan.seeds) for w in plan.ways}
    assert len({cell.digest for cell in planned}) == len(planned)


def test_only_the_way_that_keeps_is_served_by_the_scheduler_that_does() -> None:
    assert {way.engine for way in WAYS} == set(SCHEDULERS)
    assert [way for way in WAYS if way.engine == "keeping"] == [KEEPING]
    assert SCHEDULERS["stock"] is None


# What the simulator says of it.


def test_a_profile_is_kept_as_it_is() -> None:
    assert Calibrated.read(json.loads(json.dumps(ENGINE.kept()))) == ENGINE


def test_who_keeps_finds_more_and_is_faster() -> None:
    runs = draw(40, 1, ENGINE.profile)
    forgets, keeps = (simulate(way.way, runs, ENGINE, 1, keep=way.keep) for way in (FORGETTING, KEEPING))
    assert keeps.found is not None
    assert forgets.found is not None
    assert keeps.found > forgets.found
    assert keeps.mean < forgets.mean


def test_the_latency_is_passed_by_each_request_and_nobody_waits_for_it() -> None:
    run = replace(draw(40, 1, ENGINE.profile)[3], arrival=1.0)
    near, far = (simulate(VTC.way, [run], replace(ENGINE, latency=latency), 1) for latency in (0.0, 0.5))
    assert far.mean == pytest.approx(near.mean + 0.5 * len(run.stages), rel=0.01)


def pair(measured: float, simulated: float) -> Pair:
    """Mean completion times; the engine delivers as much as the simulator."""
    return Pair(Outcome(measured, 100.0), Outcome(simulated, 100.0))


def test_measured_over_simulated_is_over_the_seeds_and_judged_by_its_mean() -> None:
    found = ratio({1: pair(12.0, 10.0), 2: pair(10.0, 12.0)}, "mean")
    assert found.mean == pytest.approx(1.0)
    assert within(found, 0.0001)
    slow = ratio({1: pair(12.0, 10.0)}, "mean")
    assert within(slow, 0.2)
    assert not within(slow, 0.15)


def test_policies_are_ranked_by_what_was_measured_and_by_what_was_simulated() -> None:
    compared = {"a": {1: pair(3.0, 1.0), 2: pair(3.0, 2.0)}, "b": {1: pair(1.0, 5.0), 2: pair(4.0, 5.0)}}
    assert rankings(compared) == (["b", "a"], ["a", "b"])


def test_agent_runs_are_compared_at_the_highest_load_in_the_orders_that_both_have() -> None:
    high, low, *_ = WHOLE_RUNS.scenarios
    small = replace(high, runs=24)
    rows = [(EngineCell(small, 1, way), figures(2.0)) for way in (STOCK, FCFS_RUNS, RUN_VTC)]
    rows.append((EngineCell(replace(low, runs=24), 1, RUN_VTC), figures(2.0)))
    found = simulated_runs(rows, 0.006, replace(ENGINE, profile=msgspec.structs.replace(profile(), kv_tokens=1440)))
    assert set(found) == {FCFS_RUNS.name, RUN_VTC.name}
    assert found[RUN_VTC.name][1].measured == Outcome(2.0, 100.0, 0.5)
    assert math.isfinite(found[RUN_VTC.name][1].simulated.mean)


# The document.


def figures(mean: float, throughput: float = 100.0) -> dict[str, object]:
    return {
        "jct": [0.5 * mean, 1.5 * mean],
        "throughput": {"tokens_per_second": throughput},
        "found": 0.5,
        "queued": 0.25,
        "service": {"bronze": 1.0, "silver": 3.0},
        "preemptions": 7,
    }


def measured(mean: dict[TurnsWay, float], sessions: int) -> TurnsMeasured:
    rows = [(TurnsCell(sessions, seed, way), figures(mean[way])) for seed in (1, 2) for way in mean]
    return TurnsMeasured(rows, ENGINE, ENGINE)


def test_each_row_compares_with_vtc_on_the_same_sessions(tmp_path: Path) -> None:
    text = write_turns_document(measured({VTC: 4.0, KEEPING: 2.0}, 10), [], 0.006, tmp_path).read_text()
    ours = next(line for line in text.splitlines() if line.startswith(f"| {KEEPING.name} |"))
    assert [cell.strip() for cell in ours.strip("|").split("|")] == [
        KEEPING.name,
        "2.00 s",
        "0.500 (0.500 to 0.500, n = 2)",
        "0.500 (0.500 to 0.500, n = 2)",
        "100",
        "1.00 (1.00 to 1.00, n = 2)",
        "50%",
        "0.250 s",
        "0.750",
        "7",
    ]
    assert "Nothing to compare." in text, "no agent runs were served"


@pytest.mark.parametrize("same", [True, False])
def test_the_document_says_whether_the_simulator_has_the_same_order(tmp_path: Path, same: bool) -> None:
    means = {VTC: 4.0, KEEPING: 2.0} if same else {VTC: 2.0, KEEPING: 4.0}
    served = measured(means, 50)
    found = simulated_sessions(served)
    assert rankings(found)[1] == [KEEPING.name, VTC.name]
    text = write_turns_document(served, [], 0.006, tmp_path).read_text()
    assert ("simulated the same" in text) is same
    assert f"{2 if same else 0} of 2 give the same order" in text
