"""The prompts that are written tell what they should, and the experiments run and report."""

from pathlib import Path
from statistics import correlation

import numpy as np
import pytest

from justitia_benchmarks.experiment import Cell, Experiment, PaperVerdict
from justitia_benchmarks.experiments.learning import EXPERIMENTS, completion
from justitia_benchmarks.experiments.learning.completion import LearnedCompletion
from justitia_benchmarks.experiments.learning.errors import PredictionError
from justitia_benchmarks.experiments.learning.prompts import past_runs
from justitia_benchmarks.experiments.learning.rollout import Rollouts
from justitia_benchmarks.reports.learning_rollout import DRIFT, POISONED, STEADY
from justitia_predictor.evaluation import errors
from justitia_predictor.features import NUMBERS
from justitia_predictor.training import fitted


def rank(degree: float) -> float:
    runs = [r.sample for r in past_runs("KBQAV", 200, degree, seed=1)]
    learned, unseen = runs[:100], runs[100:]
    artifact = fitted("linear", "KBQAV", learned, 1)
    return errors([artifact.predict(s.features) for s in unseen], [s.cost for s in unseen]).rank


def test_the_more_a_prompt_tells_truly_the_better_costs_are_ordered() -> None:
    nothing, half, everything = (rank(degree) for degree in (0.0, 0.5, 1.0))
    assert nothing < half < everything
    assert everything > 0.8


def test_a_prompt_is_as_long_as_its_call() -> None:
    runs = past_runs("EV", 50, 1.0, seed=1)
    told = [r.features.numbers[NUMBERS.index("log prompt tokens")] for r in runs]
    assert told == pytest.approx([np.log1p(r.run.stages[0].requests[0].prompt_tokens) for r in runs])
    texts = [r.features.numbers[NUMBERS.index("log text bytes")] for r in runs]
    assert correlation(told, texts) > 0.95


def test_the_same_run_has_the_same_prompt() -> None:
    one, other = (past_runs("CG", 3, 0.5, seed=2) for _ in range(2))
    assert one == other
    assert one != past_runs("CG", 3, 0.5, seed=3)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: e.name)
def test_there_are_ten_seeds_of_everything_and_few_for_a_look(experiment: Experiment) -> None:
    assert len({cell.seed for cell in experiment.cells(quick=False)}) == 10
    assert len({cell.seed for cell in experiment.cells(quick=True)}) == 2


def test_errors_are_reported(tmp_path: Path) -> None:
    experiment = PredictionError()
    cells = [
        Cell({"application": application, "degree": 1.0, "samples": count}, 0)
        for application in ("EV", "FV")
        for count in (20, 100)
    ]
    claims = experiment.report([(cell, experiment.run(cell)) for cell in cells], tmp_path)
    assert [claim.paper for claim in claims] == ["53 %", "1"]
    assert {path.name for path in tmp_path.iterdir()} == {"relative-1.md", "rank-1.md", "relative-error.png"}


def test_completion_times_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "LEARNED_FROM", 25)
    experiment = LearnedCompletion()
    cells = [Cell({"policy": "tiered-justitia", "degree": 1.0, "runs": 50}, 0)]
    rows = [(cell, experiment.run(cell)) for cell in cells]
    assert list(rows[0][1]) == ["cold start", "running-mean", "mlp", "best", "true"]
    (claim,) = experiment.report(rows, tmp_path)
    assert claim.claim.startswith("mean JCT")
    assert {path.name for path in tmp_path.iterdir()} == {"jct-1.md", "jct-by-class-1.md"}
    by_class = (tmp_path / "jct-by-class-1.md").read_text()
    assert all(f"| {name} |" in by_class for name in rows[0][1]["true"]["classes"])  # type: ignore[index, call-overload]


def test_rollouts_are_reported_and_a_poisoned_model_does_not_take_effect(tmp_path: Path) -> None:
    experiment = Rollouts()
    cells = [Cell({"application": "FV", "scenario": scenario}, 0) for scenario in (STEADY, POISONED, DRIFT)]
    rows = [(cell, experiment.run(cell)) for cell in cells]
    assert [[d["reason"] for d in figures["decisions"]][:1] for _, figures in rows] == [  # type: ignore[attr-defined]
        ["Promoted"],
        ["Rejected"],
        ["RolledBack"],
    ]
    assert all(claim.verdict is PaperVerdict.REACHED for claim in experiment.report(rows, tmp_path))
    assert "| FV | 100%" in (tmp_path / "rollouts.md").read_text()
