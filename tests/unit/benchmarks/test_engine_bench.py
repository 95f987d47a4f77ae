"""The bench on a real engine sizes its load to the engine, and compares orders only where requests wait."""

from pathlib import Path

import pytest

from justitia_benchmarks.engine.measure import RUN_VTC, STOCK, TRUE
from justitia_benchmarks.engine.plan import QUICK, WHOLE, EngineCell, EnginePlan, cells, sized
from justitia_benchmarks.engine.workload import draw, work_seconds
from justitia_benchmarks.reports.engine import LEAST_WAIT, NOTHING_WAITED, write_document

SLOW, FAST = 0.0067, 0.0067 / 4
"""Seconds of a full step."""


@pytest.mark.parametrize("plan", [QUICK, WHOLE], ids=["quick", "whole"])
@pytest.mark.parametrize("step", [10 * SLOW, SLOW, FAST], ids=["slower", "slow", "fast"])
def test_an_engine_has_enough_to_do_however_fast_it_is(plan: EnginePlan, step: float) -> None:
    for asked, scenario in zip(plan.scenarios, sized(plan, step).scenarios, strict=True):
        assert scenario.runs >= asked.runs
        assert work_seconds(scenario.runs, step) >= asked.seconds
        if scenario.runs > asked.runs:
            assert work_seconds(scenario.runs, step) < 2 * asked.seconds, "a look takes no longer than it has to"


def test_runs_as_many_as_before_were_too_few_for_a_fast_engine() -> None:
    """Negative control: the number alone does not give an engine enough to do."""
    (scenario,) = QUICK.scenarios
    assert work_seconds(scenario.runs, FAST) < scenario.seconds / 4


@pytest.mark.parametrize("step", [SLOW, FAST], ids=["slow", "fast"])
def test_runs_arrive_so_fast_that_work_comes_at_the_load(step: float) -> None:
    (scenario,) = sized(QUICK, step).scenarios
    runs = draw(scenario.runs, 1, scenario.load, step)
    work = work_seconds(scenario.runs, step)
    assert runs[-1].arrival == pytest.approx(work / scenario.load, rel=0.25)


def figures(jct: float, queued: float) -> dict[str, object]:
    requests = {"ttft": [0.5 * jct], "ttlt": [jct], "queued": queued, "throughput": {"tokens_per_second": 100.0}}
    return {"jct": [jct, 2 * jct], "cost": [1, 1], "tenant": ["bronze", "silver"], "seconds": 9.0, **requests}


@pytest.mark.parametrize("waits", [True, False])
def test_orders_are_compared_where_requests_waited(tmp_path: Path, waits: bool) -> None:
    queued = (2 if waits else 0.5) * LEAST_WAIT
    jct = {STOCK: 2.0, RUN_VTC: 1.0, TRUE: 0.5}
    rows: list[tuple[EngineCell, dict[str, object]]] = [
        (cell, figures(jct[cell.way], queued)) for cell in cells(QUICK) if cell.way in jct
    ]
    text = write_document(rows, SLOW, folder=tmp_path).read_text()
    ours = next(line for line in text.splitlines() if line.startswith(f"| {TRUE.name} "))
    target = next(line for line in text.splitlines() if "true costs ÷ run-level VTC" in line)
    for line in (ours, target):
        assert (NOTHING_WAITED in line) is not waits
        assert ("| 0.500 (" in line) is waits
    assert ("| yes |" in target) is waits
