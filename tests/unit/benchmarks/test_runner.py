"""Results are computed once, survive an interruption, and follow the source; failures name themselves."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from justitia_benchmarks import runner
from justitia_benchmarks.experiment import Cell, Experiment
from justitia_benchmarks.runner import ExperimentOutcome, cell_digest, run_experiments, source_digest, source_files
from support.experiments import Squares


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


def run(experiment: Experiment, folder: Path, jobs: int = 1) -> ExperimentOutcome:
    [outcome] = run_experiments({experiment: experiment.cells(False)}, folder, jobs=jobs)
    return outcome


def computed(marks: Path) -> list[str]:
    return sorted(mark.name.rsplit("-", 1)[0] for mark in marks.iterdir())


def test_every_cell_is_computed_once_and_its_rows_come_in_the_order_of_the_cells(tmp_path: Path, marks: Path) -> None:
    squares = Squares(marks)
    first = run(squares, tmp_path / "out", jobs=2)
    again = run(squares, tmp_path / "out")
    assert [figures for _, figures in first.rows] == [{"square": s} for s in (0, 1, 4, 1, 2, 5)]
    assert [cell for cell, _ in first.rows] == list(squares.cells(False))
    assert (first.computed, again.computed) == (6, 0)
    assert again.rows == first.rows
    assert len(computed(marks)) == 6


def test_what_an_interrupted_run_has_not_computed_is_computed_by_the_next(tmp_path: Path, marks: Path) -> None:
    squares = Squares(marks)

    class Interrupted(Exception):
        pass

    def interrupt(experiment: Experiment, done: int, total: int) -> None:
        if done == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        run_experiments({squares: squares.cells(False)}, tmp_path, jobs=1, on_done=interrupt)
    kept = len(list((tmp_path / "squares").glob("*.json")))
    assert kept == 2
    assert run(squares, tmp_path).computed == 4


@pytest.mark.parametrize(
    ("how", "error"),
    [("raises", "RuntimeError: the engine is stuck"), ("nan", "ValueError: Out of range float values")],
)
def test_a_failing_cell_names_itself_and_the_others_finish(tmp_path: Path, marks: Path, how: str, error: str) -> None:
    outcome = run(Squares(marks, bad=1, how=how), tmp_path / "out")
    assert sorted(f.text.split(":", 1)[0] for f in outcome.failures) == ["squares [x=1 seed=0]", "squares [x=1 seed=1]"]
    assert all(error in f.text for f in outcome.failures)
    assert outcome.computed == 4
    assert outcome.rows == []
    assert run(Squares(marks), tmp_path / "out").computed == 2, "only what failed runs again"


def test_a_result_says_what_it_is_of(tmp_path: Path, marks: Path) -> None:
    squares = Squares(marks)
    run(squares, tmp_path / "out")
    path = tmp_path / "out" / "squares" / f"{cell_digest(Cell({'x': 2}, 1))}.json"
    source = source_digest(squares)
    assert json.loads(path.read_bytes()) == {
        "parameters": {"x": 2}, "seed": 1, "source": source, "figures": {"square": 5},
    }  # fmt: skip


def test_results_of_another_source_are_reported_as_stale_and_computed_again(
    tmp_path: Path, marks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squares = Squares(marks)
    run(squares, tmp_path / "out")
    monkeypatch.setattr(runner, "source_digest", lambda experiment: "another")
    told: list[tuple[Experiment, int]] = []
    [outcome] = run_experiments(
        {squares: squares.cells(False)}, tmp_path / "out", jobs=1, on_stale=lambda e, results: told.append((e, results))
    )
    assert (outcome.stale, outcome.computed, told) == (6, 6, [(squares, 6)])
    again = run(squares, tmp_path / "out")
    assert (again.stale, again.computed) == (0, 0)
    assert len(list((tmp_path / "out" / "squares").iterdir())) == 6


def test_what_was_never_computed_is_not_stale(tmp_path: Path, marks: Path) -> None:
    assert run(Squares(marks), tmp_path / "out").stale == 0


def test_the_digest_depends_on_the_cell() -> None:
    cells = [Cell({"x": 1}, 0), Cell({"x": 2}, 0), Cell({"x": 1}, 1), Cell({"y": 1}, 0), Cell({"x": 1.0}, 0)]
    assert len({cell_digest(cell) for cell in cells}) == len(cells)


SOURCES = {
    "__init__": "",
    "experiment": "",
    "reports": "",
    "family": "import evaluations.plainly\nfrom evaluations import reports, wholly\nfrom evaluations.shared import x\n"
    "from evaluations.experiment import y\nclass E: pass\n",
    "plainly": "",
    "wholly": "",
    "shared": "from evaluations.indirectly import x\n",
    "indirectly": "x = 1\n",
    "unrelated": "",
}


@pytest.fixture
def evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that stands for the harness's own."""
    package = tmp_path / "evaluations"
    package.mkdir()
    for name, text in SOURCES.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(runner, "FOLLOWED_PACKAGES", ("evaluations",))
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "evaluations"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        *((name, True) for name in ("family", "shared", "indirectly", "plainly", "wholly")),
        *((name, False) for name in ("reports", "experiment", "unrelated")),
    ],
)
def test_the_digest_follows_all_that_the_experiment_imports_but_the_reports_and_the_interface(
    evaluations: Path, changed: str, stale: bool
) -> None:
    experiment = type("Anything", (), {"__module__": "evaluations.family"})()
    before = source_digest(experiment)
    (evaluations / f"{changed}.py").write_text(SOURCES[changed] + "# changed\n")
    assert (source_digest(experiment) != before) is stale


def test_the_policies_and_the_simulator_belong_to_the_source_of_every_experiment() -> None:
    names = {
        f"{path.parent.name}/{path.name}"
        for path in source_files("justitia_benchmarks.experiments.justitia.starvation")
    }
    assert {"policies/tiered.py", "justitia_simulator/engine.py", "justitia/serving.py"} <= names
    assert {"data/conversation-arrivals.json", "data/lengths.json"} <= names
    assert "justitia_benchmarks/document.py" not in names


@pytest.mark.parametrize(
    ("module", "experiment", "follows"),
    [
        ("baselines.py", "tiered.completion", True),
        ("baselines.py", "justitia.starvation", False),
        ("statistics.py", "justitia.completion", True),
        ("comparison.py", "justitia.completion", True),
        ("curves.py", "justitia.completion", False),
    ],
)
def test_the_digest_follows_what_an_experiment_measures_with_or_compares_to(
    module: str, experiment: str, follows: bool
) -> None:
    files = source_files(f"justitia_benchmarks.experiments.{experiment}")
    assert any("justitia_benchmarks" in p.parts and p.name == module for p in files) is follows


def test_the_digest_follows_data_files(tmp_path: Path, marks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "recorded_data"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "data" / "lengths.json").write_text("[1]")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(runner, "WHOLE_PACKAGES", ("recorded_data",))
    before = source_digest(Squares(marks))
    (package / "data" / "lengths.json").write_text("[2]")
    assert source_digest(Squares(marks)) != before
