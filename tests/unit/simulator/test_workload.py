"""Workload files: what is accepted, what is refused and where."""

from pathlib import Path

import msgspec
import pytest

from justitia_simulator.workload import (
    WorkloadError,
    WorkloadRequest,
    WorkloadRun,
    WorkloadStage,
    load_workload,
    parse_workload,
    write_workload,
)


def line(**fields: object) -> bytes:
    base = {"run": "r", "tenant": "t", "application": "a", "arrival": 0.0, "prompt_tokens": 10, "output_tokens": 5}
    return msgspec.json.encode(base | fields)


def test_the_lines_of_a_run_become_its_stages() -> None:
    [run] = parse_workload([line(), line(stage=1, delay=2.5), line(stage=1, delay=2.5, prompt_tokens=7)], "w")
    assert [(s.delay, [r.prompt_tokens for r in s.requests]) for s in run.stages] == [(0.0, [10]), (2.5, [10, 7])]


def test_runs_come_in_order_of_arrival_and_ties_in_order_of_the_file() -> None:
    lines = [line(run="late", arrival=3), line(run="b", arrival=1), line(run="a", arrival=1)]
    assert [r.id for r in parse_workload(lines, "w")] == ["b", "a", "late"]


def test_the_cost_of_a_run_is_its_kv_token_time() -> None:
    [run] = parse_workload([line(), line()], "w")
    assert run.cost == 2 * (10 * 5 + (1 + 2 + 3 + 4 + 5))


@pytest.mark.parametrize("name", ["w.jsonl", "w.jsonl.gz"])
def test_a_written_file_reads_back_the_same_with_unknown_fields(tmp_path: Path, name: str) -> None:
    runs = [
        WorkloadRun(
            "r1", "t", "a", 0.5, (WorkloadStage((WorkloadRequest(9, 3, "p", 4, {"class": "EV", "n": [1]}),)),), 120.0
        ),
        WorkloadRun(
            "r2",
            "u",
            "b",
            1.5,
            (
                WorkloadStage((WorkloadRequest(8, 2), WorkloadRequest(8, 2, context="main"))),
                WorkloadStage((WorkloadRequest(17, 1, "main", 10, context="main"),), 2.0),
            ),
        ),
    ]
    write_workload(runs, tmp_path / name)
    assert load_workload(tmp_path / name) == runs
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_the_same_runs_give_the_same_compressed_bytes(tmp_path: Path) -> None:
    run = WorkloadRun("r", "t", "a", 0.0, (WorkloadStage((WorkloadRequest(9, 3),)),))
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_workload([run], tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes()[10:] == (tmp_path / "b.jsonl.gz").read_bytes()[10:]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line(), b"{oops"], "w:2: JSON is malformed"),
        ([line(), b"[]"], "w:2: expected an object"),
        ([b"\n", line(prompt_tokens=0)], r"w:2: Expected `int` >= 1 - at `\$.prompt_tokens`"),
        ([line(output_tokens="5")], r"w:1: Expected `int`, got `str` - at `\$.output_tokens`"),
        ([line(arrival=-1)], r"w:1: Expected `float` >= 0.0 - at `\$.arrival`"),
        ([line(prefix="p", prefix_tokens=11)], "w:1: prefix_tokens is 11, more than prompt_tokens 10"),
        (
            [line(context="c", prefix="c", prefix_tokens=1)],
            "w:1: run 'r': context 'c' is its own prefix, but no earlier",
        ),
        (
            [line(context="c"), line(stage=1, prefix="c", prefix_tokens=16, prompt_tokens=20)],
            "w:2: run 'r': prefix_tokens is 16, but context 'c' has 15 tokens by then",
        ),
        (
            [line(context="c"), line(stage=1, prefix="c", prefix_tokens=9, context="c")],
            "w:2: run 'r': context 'c' has 15 tokens by then and only grows: to go on with it, give prefix 'c' and "
            "prefix_tokens 15; else give another context",
        ),
        (
            [line(context="c"), line(), line(context="c")],
            "w:3: run 'r': context 'c' is that of another request of this",
        ),
        (
            [line(prefix="c", prefix_tokens=5), line(stage=1, context="c")],
            "w:2: run 'r': context 'c' has the name of a text that the run uses as a shared prefix",
        ),
        ([line(context="")], r"w:1: Expected `str` of length >= 1 - at `\$.context`"),
        ([line(), line(tenant="u")], "w:2: tenant of run 'r' is 'u' here and 't' on line 1"),
        ([line(), line(run="x"), line(arrival=2)], "w:3: arrival of run 'r' is 2.0 here and 0.0 on line 1"),
        ([line(), line(stage=1), line(stage=1, delay=1)], "w:3: delay of stage 1 of run 'r' is 1.0 here and 0.0"),
        ([line(), line(stage=2)], "w:2: run 'r' has stage 2 but no 1"),
        ([b'{"run":"r"}'], "w:1: Object missing required field `tenant`"),
        ([], "w:1: no requests"),
    ],
)
def test_a_bad_line_is_refused_with_its_number_and_what_is_wrong(lines: list[bytes], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        parse_workload(lines, "w")


def test_a_file_that_is_not_gzip_despite_its_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl.gz"
    path.write_bytes(line())
    with pytest.raises(WorkloadError, match=r"w\.jsonl\.gz: is not a readable gzip file"):
        load_workload(path)
