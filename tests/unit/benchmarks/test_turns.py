"""The benchmark of sessions serves each way as it says, and compares each with VTC on the same sessions."""

from itertools import product

import pytest

from justitia_benchmarks.turns import SETTINGS, WAYS, Served, Setting, Way, document, serve
from justitia_benchmarks.turns_told import Known, prediction
from justitia_simulator.records import PolicyResults, RequestResult
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage

SMALL = Setting("h100-llama2-7b", 2.0, 0.05, 12, 30.0)


def test_a_way_without_a_cache_finds_less_and_one_that_keeps_finds_no_less() -> None:
    without, with_it, kept = (
        serve((SMALL, 1, way)).found for way in (Way("fcfs", cache=False), Way("fcfs"), Way("fcfs", keep=True))
    )
    assert without < with_it <= kept


def test_each_row_compares_with_vtc_on_the_same_sessions() -> None:
    served = {
        (setting, seed, way): Served(10.0 * seed if way.policy == "vtc" else 5.0 * seed, 20.0, 0.5, 100.0, None)
        for setting, seed, way in product(SETTINGS, (1, 2), WAYS)
    }
    text = document(served, (1, 2))
    row = next(line for line in text.splitlines() if line.startswith("| tiered-justitia, KV kept |"))
    assert row.split(" | ")[1:4] == ["7.50 s", "0.50 (0.50 to 0.50)", "1.00 (1.00 to 1.00)"]
    assert "never both waited" in row


def talk(name: str, turns: int) -> WorkloadRun:
    """Each turn adds 10 tokens and produces 5; the cache could have all that was said before."""
    stages = [
        WorkloadStage((WorkloadRequest(10 + 15 * turn, 5, "c" if turn else None, 15 * turn, context="c"),))
        for turn in range(turns)
    ]
    return WorkloadRun(name, "t", "a", 0.0, tuple(stages))


def served_without_a_cache(runs: list[WorkloadRun]) -> PolicyResults:
    requests = [
        RequestResult(
            "p", run.id, "t", "a", n, 0.0, 0.0, 0.0, 1.0, 2.0, r.prompt_tokens, r.output_tokens, 0, "finished"
        )
        for run in runs
        for n, r in enumerate(run.requests)
    ]
    return PolicyResults("p", requests, [])


def test_costs_are_those_of_what_was_read_in_fact() -> None:
    runs = [talk("two", 2)]
    told = prediction(Known.COST, runs, served_without_a_cache(runs), 1).tell(runs)["two"]
    assert (told.cost, told.prompt_tokens, told.output_tokens) == (10 * 5 + 15 + 25 * 5 + 15, 35, 10)
    told = prediction(Known.CACHED, runs, served_without_a_cache(runs), 1).tell(runs)["two"]
    assert (told.cost, told.prompt_tokens, told.output_tokens) == (2 * (10 * 5 + 15), 20, 10)


def test_by_turns_sessions_of_as_many_turns_are_told_the_same() -> None:
    runs = [talk(f"r{i}", 1 + i % 4) for i in range(16)]
    served = served_without_a_cache(runs)
    told = prediction(Known.TURNS, runs, served, 1).tell(runs)
    costs = [told[f"r{i}"].cost or 0.0 for i in range(16)]
    assert costs[:4] == pytest.approx(costs[4:8])
    assert costs[:4] == sorted(costs[:4])
    roughly = prediction(Known.ROUGHLY, runs, served, 1).tell(runs)
    factors = [(roughly[run].cost or 0.0) / (told[run].cost or 1.0) for run in told]
    assert 0.5 <= min(factors) < 0.8
    assert 1.2 < max(factors) <= 2.0
