"""Runs made from a trace."""

from pathlib import Path

import pytest

from justitia_simulator.traces import SHAPES, Scale, TraceError, TraceRequest, demo_workload, load_trace
from justitia_simulator.workload import load_workload

TRACE = [TraceRequest(0.5 * i + (i % 7) * 0.05, 100 + 37 * i % 4000, 10 + 13 * i % 900) for i in range(2000)]
EXAMPLE = Path(__file__).parents[3] / "examples/traces/azure2023-conversation.csv"


def test_the_same_seed_gives_the_same_workload_and_another_seed_another() -> None:
    assert demo_workload(TRACE, seed=3) == demo_workload(TRACE, seed=3)
    assert demo_workload(TRACE, seed=3) != demo_workload(TRACE, seed=4)


def test_tenants_send_the_asked_work_within_their_window_through_their_applications() -> None:
    runs = demo_workload(TRACE, flood_seconds=20, research_work=50_000, batch_work=80_000, support_seconds=40)
    for tenant, work, window, applications in [
        ("research", 50_000, 20, {"map-reduce-summary", "self-consistency"}),
        ("batch", 80_000, 20, {"code-checking", "fact-verification"}),
        ("support", 30_000, 40, {"chat"}),
    ]:
        mine = [r for r in runs if r.tenant == tenant]
        total = [sum(q.prompt_tokens + 2 * q.output_tokens for q in r.requests) for r in mine]
        assert sum(total) - max(total) < work <= sum(total)
        assert min(r.arrival for r in mine) == 0.0
        assert max(r.arrival for r in mine) == window
        assert {r.application for r in mine} == applications


def test_runs_have_the_shape_of_their_application() -> None:
    shapes: dict[str, set[tuple[int, ...]]] = {name: set() for name in SHAPES}
    for run in demo_workload(TRACE, research_work=600_000, batch_work=200_000):
        shapes[run.application].add(tuple(len(s.requests) for s in run.stages))
    assert shapes["chat"] == {(1,)}
    assert shapes["code-checking"] == {(1, 3)}
    assert shapes["fact-verification"] == {(1, 1), (1, 1, 1), (1, 1, 1, 1)}
    assert shapes["map-reduce-summary"] == {(n, 1) for n in range(3, 9)}
    assert shapes["self-consistency"] == {(k,) for k in range(3, 7)}


def test_the_example_workload_is_what_the_example_trace_gives() -> None:
    assert load_workload(EXAMPLE.parents[1] / "workloads/demo.jsonl.gz") == demo_workload(load_trace(EXAMPLE))


def test_lengths_stay_inside_the_small_models_context() -> None:
    scale = Scale()
    for run in demo_workload(TRACE, scale=scale):
        for r in run.requests:
            assert scale.minimum_prompt <= r.prompt_tokens <= scale.maximum_prompt
            assert scale.minimum_output <= r.output_tokens <= scale.maximum_output


def test_the_example_trace_reads_as_six_thousand_requests_over_twenty_minutes() -> None:
    trace = load_trace(EXAMPLE)
    assert len(trace) == 6000
    assert trace[0] == TraceRequest(0.0, 374, 44)
    assert 1190 < trace[-1].time < 1210


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,3,x\n",
            r"t\.csv:2: .*: a time and two whole numbers$",
        ),
        ("a,b\n1,2\n", r"t\.csv:2: expected TIMESTAMP"),
        ("", r"t\.csv:1: no requests"),
    ],
)
def test_a_bad_trace_is_refused_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TraceError, match=message):
        load_trace(tmp_path / "t.csv")
