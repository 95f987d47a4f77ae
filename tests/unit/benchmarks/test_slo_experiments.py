"""The study of gamma moved by objectives: what it serves, how it judges, and that it reports."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from justitia_benchmarks.experiment import Cell, Experiment, PaperVerdict
from justitia_benchmarks.experiments.slo import EXPERIMENTS
from justitia_benchmarks.experiments.slo.overload import Overload
from justitia_benchmarks.experiments.slo.serving import END, SCENARIOS, STEP, ServedStep, attained, serve, workload
from justitia_benchmarks.experiments.slo.steps import FIXED, Steps
from justitia_benchmarks.reports.slo import CONTROLLER, EQUATION_9


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
def test_there_are_ten_seeds_of_everything_and_few_for_a_look(experiment: Experiment) -> None:
    assert len({cell.seed for cell in experiment.cells(quick=False)}) == 10
    assert len({cell.seed for cell in experiment.cells(quick=True)}) == 2


@pytest.mark.parametrize("name", SCENARIOS)
def test_rate_and_mix_change_at_the_step(name: str) -> None:
    scenario = SCENARIOS[name]
    runs = workload(scenario, 1)
    assert len({run.id for run in runs}) == len(runs)
    for phase, start, end in ((scenario.before, 0.0, STEP), (scenario.after, STEP, END)):
        own = [run for run in runs if start <= run.arrival < end]
        assert len(own) == pytest.approx(phase.rate * (end - start), rel=0.15)
        assert sum(run.application == "reasoning" for run in own) == pytest.approx(phase.reasoning * len(own), rel=0.4)


def test_a_window_is_judged_by_the_bound_of_its_moment() -> None:
    scenario = SCENARIOS["objective tightened"]
    runs = [run for run in workload(scenario, 1) if run.arrival < 5]
    served = serve(runs, 0.1)
    waited = [replace_first(request, 10.0) for request in served.requests]
    assert attained(ServedStep(waited, []), scenario, 0.0) == 1.0
    later = [
        replace_first(r, 10.0, STEP) if i % 2 else replace_first(r, 1.0, STEP) for i, r in enumerate(served.requests)
    ]
    assert attained(ServedStep(later, []), scenario, STEP) == pytest.approx(0.5, abs=0.05)
    assert attained(ServedStep([], []), scenario, STEP) == 1.0


def replace_first(request: Any, wait: float, start: float = 0.0) -> Any:
    ready = start + request.ready
    return structs.replace(request, ready=ready, first_token=ready + wait)


def test_fixed_gamma_stays_and_equation_9_and_the_controller_tell_theirs() -> None:
    scenario = SCENARIOS["load doubles"]
    runs = [run for run in workload(scenario, 1) if run.arrival < 20]
    assert serve(runs, 0.01).looks == []
    assert len(serve(runs, None).looks) > 3
    decisions = [look.decision for look in serve(runs, scenario).looks]
    assert {key for d in decisions for key in d.standings} == {"o"}


def contender(windows: list[float], reached: float | None) -> dict[str, Any]:
    return {
        "windows": windows,
        "reached": reached,
        "completion": {"p50": 1.0, "p90": 2.0, "p99": 3.0},
        "gamma": [0.1] * 120,
        "states": ["Met"] * 120,
    }


def test_only_windows_that_some_fixed_gamma_holds_count(tmp_path: Path) -> None:
    """There are eight windows after the first minute: one gamma each holds the first two, none the rest."""
    before = [1.0] * 10
    contenders = {
        CONTROLLER: contender([*before, 0.95, 0.5, *[1.0] * 6], 35.0),
        EQUATION_9: contender([*before, *[0.0] * 8], None),
        **{f"{gamma:g}": contender([*before, *[0.0] * 8], 70.0) for gamma in FIXED},
    }
    contenders["0.01"]["windows"][10] = 0.9
    contenders["0.03"]["windows"][11] = 0.9
    cells = [Cell({"scenario": "load doubles"}, seed) for seed in range(2)]
    claims = Steps().report([(cell, {"percentile": 0.9, "contenders": contenders}) for cell in cells], tmp_path)
    figures = {claim.claim: claim for claim in claims}
    share = figures["load doubles: share of windows held where a fixed gamma could, controller"]
    assert (share.ours.mean, share.verdict) == (0.5, PaperVerdict.NOT_REACHED)  # type: ignore[union-attr]
    reached = figures["load doubles: seconds from the step to windows that are held"]
    assert (reached.ours.mean, reached.verdict) == (35.0, PaperVerdict.BEATEN)  # type: ignore[union-attr]
    spell = figures["load doubles: longest spell that is missed though a fixed gamma could hold it, s"]
    assert spell.ours.mean == 30.0  # type: ignore[union-attr]
    assert {path.name for path in tmp_path.iterdir()} == {
        "1-held.md", "2-completion.md", "3-attainment.png", "4-gamma.png",
    }  # fmt: skip


def test_overload_is_reported(tmp_path: Path) -> None:
    figures = {"said": 120.0, "before": 0, "named": 2, "held": {"1": 0.1, "2": 1.0, "3": 1.0}}
    cells = [Cell({"scenario": "load times four"}, seed) for seed in range(2)]
    said, held = Overload().report([(cell, figures) for cell in cells], tmp_path)
    assert (said.verdict, held.verdict) == (PaperVerdict.REACHED, PaperVerdict.BEATEN)
    silent = {**figures, "said": None, "named": None}
    (said,) = Overload().report([(cells[0], silent)], tmp_path)
    assert said.verdict is PaperVerdict.NOT_REACHED
