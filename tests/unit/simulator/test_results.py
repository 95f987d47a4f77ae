"""Result files and what they come to."""

import json
from pathlib import Path

import pytest

from justitia_simulator.records import PolicyResults, RequestResult, RunResult, ServiceSample, run_result
from justitia_simulator.results import ResultsError, read_results, write_results
from justitia_simulator.summary import distribution, largest_decile, summarise, tool_time


def request(**fields: object) -> RequestResult:
    base: dict[str, object] = {
        "policy": "p", "run": "r", "tenant": "t", "application": "a", "stage": 0, "arrival": 0.0, "ready": 0.0,
        "admitted": 1.0, "first_token": 2.0, "finished": 6.0, "prompt_tokens": 10, "output_tokens": 5,
        "preemptions": 0, "status": "finished",
    }  # fmt: skip
    return RequestResult(**(base | fields))  # type: ignore[arg-type]


def results(policy: str = "p", **fields: object) -> PolicyResults:
    requests = [request(policy=policy), request(policy=policy, run="s", tenant="u", finished=10.0)]
    runs = [run_result([r], 1) for r in requests]
    samples = [ServiceSample(policy, 1.0, "t", 3.0, 0, 1), ServiceSample(policy, 1.0, "u", 1.0, 0, 1)]
    return PolicyResults(policy, requests, runs, samples, {"t": 3.0, "u": 1.0}, conditions={"seed": 1})


def test_a_run_costs_its_tokens_and_lasts_to_its_last_token() -> None:
    run = run_result([request(arrival=1.0), request(arrival=1.0, finished=9.0)], expected=2)
    assert (run.finished, run.jct, run.cost) == (9.0, 8.0, 130)


def test_a_run_with_a_failed_request_has_no_completion_time_and_costs_what_was_produced() -> None:
    run = run_result([request(), request(finished=None, output_tokens=2, status="HTTP 503")], expected=2)
    assert (run.finished, run.jct, run.cost) == (None, None, 65 + 10 * 2 + 3)


def test_a_run_cut_short_between_stages_has_not_finished() -> None:
    assert run_result([request()], expected=2).jct is None


def test_results_read_back_as_written(tmp_path: Path) -> None:
    write_results(tmp_path, [results()])
    assert read_results(tmp_path) == [results()]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "requests.jsonl",
        "runs.jsonl",
        "service.jsonl",
        "summary.json",
    ]


def test_the_files_have_the_documented_columns(tmp_path: Path) -> None:
    write_results(tmp_path, [results()])
    columns = {
        n: " ".join(json.loads((tmp_path / n).read_text().splitlines()[0])) for n in ("requests.jsonl", "runs.jsonl")
    }
    assert columns["requests.jsonl"] == (
        "policy run tenant application stage arrival ready admitted first_token finished prompt_tokens output_tokens "
        "preemptions status cached_tokens"
    )
    assert columns["runs.jsonl"] == "policy run tenant application arrival finished cost jct"


def test_a_folder_keeps_other_policies_and_replaces_the_same(tmp_path: Path) -> None:
    write_results(tmp_path, [results("a"), results("b")])
    write_results(tmp_path, [PolicyResults("b", [request(policy="b")], [])])
    again = {r.policy: len(r.requests) for r in read_results(tmp_path)}
    assert again == {"a": 2, "b": 1}


def test_a_bad_line_of_results_is_refused_with_file_and_number(tmp_path: Path) -> None:
    write_results(tmp_path, [results()])
    path = tmp_path / "runs.jsonl"
    path.write_text(path.read_text() + '{"policy": 3}\n')
    with pytest.raises(ResultsError, match=r"runs\.jsonl:3: Expected `str`, got `int` - at `\$\.policy`"):
        read_results(tmp_path)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no summary\.json there"):
        read_results(tmp_path)


def test_percentiles_are_linear_between_ranks() -> None:
    figures = distribution([1.0, 2.0, 3.0, 4.0, 5.0])
    assert figures == {"mean": 3.0, "p50": 3.0, "p90": pytest.approx(4.6), "p95": pytest.approx(4.8),
                       "p99": pytest.approx(4.96), "max": 5.0}  # fmt: skip


def test_the_largest_decile_is_by_cost_and_rounds_up() -> None:
    runs = [RunResult("p", f"r{i}", "t", "a", 0.0, 1.0, float(i), 1.0) for i in range(11)]
    assert [r.run for r in largest_decile(runs)] == ["r10", "r9"]


def test_tool_time_is_the_pause_before_each_stage() -> None:
    stages = [
        request(arrival=1.0, ready=1.5, finished=4.0),
        request(arrival=1.0, ready=1.5, finished=6.0),
        request(arrival=1.0, stage=1, ready=8.0, finished=9.0),
    ]
    assert tool_time(stages) == {"r": pytest.approx(2.5)}


def test_the_summary_by_hand() -> None:
    summary = summarise(results())
    assert summary["jct"]["mean"] == 8.0  # type: ignore[index]
    assert summary["ttft"]["p99"] == 2.0  # type: ignore[index]
    assert summary["tpot"]["max"] == 2.0  # type: ignore[index]
    assert summary["throughput"] == {"tokens_per_second": 3.0, "requests_per_second": 0.2}
    tenants = summary["tenants"]
    assert tenants["t"]["share"] == 0.75  # type: ignore[index]
    assert tenants["u"]["service"] == 1.0  # type: ignore[index]
    assert summary["service_unit"] == "engine seconds"


def test_without_a_time_series_service_is_weighted_tokens() -> None:
    summary = summarise(PolicyResults("p", [request()], []))
    assert (summary["service_unit"], summary["tenants"]["t"]["service"]) == ("weighted tokens", 20.0)  # type: ignore[index]


def test_nothing_finished_gives_no_distribution_and_no_failure() -> None:
    bad = request(status="HTTP 503", finished=None, first_token=None, output_tokens=0)
    summary = summarise(PolicyResults("p", [bad], [run_result([bad], 1)]))
    assert (summary["jct"], summary["ttft"], summary["throughput"], summary["runs_finished"]) == (None, None, None, 0)
