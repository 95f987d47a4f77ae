"""Production traces as workloads."""

from pathlib import Path

import pytest

from justitia_simulator.production import trace_workload
from justitia_simulator.traces import TraceError

EXAMPLE = Path(__file__).parents[3] / "examples/traces/azure2023-conversation.csv"


def test_a_prompt_shares_its_longest_chain_of_blocks_that_others_begin_with(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"timestamp": 3000, "input_length": 900, "output_length": 5, "hash_ids": [0, 1]}\n'
        '{"timestamp": 0, "input_length": 1500, "output_length": 6, "hash_ids": [0, 1, 2]}\n'
        '{"timestamp": 6000, "input_length": 300, "output_length": 7, "hash_ids": [9]}\n'
    )
    runs = trace_workload(path, {"a": 1.0}, seed=1)
    assert [run.arrival for run in runs] == [0.0, 3.0, 6.0]
    assert [(r.prefix, r.prefix_tokens) for run in runs for r in run.requests] == [("1", 1024), ("1", 900), (None, 0)]


def test_a_csv_trace_is_drawn_onto_tenants_by_weight() -> None:
    runs = trace_workload(EXAMPLE, {"a": 1.0, "b": 3.0}, seed=1)
    assert len(runs) == 6000
    assert sum(run.tenant == "b" for run in runs) == pytest.approx(4500, abs=150)


def test_a_bad_line_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"timestamp": 0, "input_length": -1, "output_length": 5}\n')
    with pytest.raises(TraceError, match=r"t\.jsonl:1: Expected `int` >= 1"):
        trace_workload(path, {"a": 1.0}, seed=1)
