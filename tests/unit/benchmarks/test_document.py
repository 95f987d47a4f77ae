"""The document has one table of claims, and each experiment's tables and plots below it."""

from pathlib import Path

import pytest

from justitia_benchmarks.document import write_document
from justitia_benchmarks.experiment import Cell, PaperVerdict
from justitia_benchmarks.runner import ExperimentOutcome, Failure
from support.experiments import Squares


@pytest.fixture
def outcome(tmp_path: Path) -> ExperimentOutcome:
    squares = Squares(tmp_path)
    return ExperimentOutcome(squares, [(cell, {"square": cell.seed}) for cell in squares.cells(False)])


def test_claims_carry_the_papers_figure_ours_with_its_spread_and_the_verdict(
    tmp_path: Path, outcome: ExperimentOutcome
) -> None:
    text = write_document([outcome], tmp_path / "results", command="make it").read_text()
    assert (
        "| squares grow ([squares](#squares)) | they do | 0.500 (-0.0748 to 1.07, n = 6) | reached | by hand |" in text
    )


def test_tables_and_plots_follow_and_bars_in_cells_do_not_break_them(
    tmp_path: Path, outcome: ExperimentOutcome
) -> None:
    text = write_document([outcome], tmp_path / "results", command="make it").read_text()
    assert "| x \\| seed | square |" in text
    assert "![plot](squares/plot.svg)" in text
    assert (tmp_path / "results" / "squares" / "plot.svg").exists()


def test_an_experiment_with_failures_says_so_and_claims_nothing(tmp_path: Path, outcome: ExperimentOutcome) -> None:
    failed = ExperimentOutcome(outcome.experiment, failures=[Failure("squares", Cell({}, 0), "ValueError: no")])
    text = write_document([failed], tmp_path / "results", command="make it").read_text()
    assert "1 of its cells failed" in text
    assert "squares grow" not in text


def test_nothing_of_an_earlier_document_stays(tmp_path: Path, outcome: ExperimentOutcome) -> None:
    (tmp_path / "results" / "gone").mkdir(parents=True)
    (tmp_path / "results" / "gone" / "plot.svg").touch()
    write_document([outcome], tmp_path / "results", command="make it")
    assert sorted(p.name for p in (tmp_path / "results").iterdir()) == ["README.md", "squares"]


def test_a_folder_with_a_document_of_its_own_stays(tmp_path: Path, outcome: ExperimentOutcome) -> None:
    (tmp_path / "results" / "other").mkdir(parents=True)
    (tmp_path / "results" / "other" / "README.md").touch()
    write_document([outcome], tmp_path / "results", command="make it")
    assert (tmp_path / "results" / "other" / "README.md").exists()


def test_the_same_rows_give_the_same_document(tmp_path: Path, outcome: ExperimentOutcome) -> None:
    first = write_document([outcome], tmp_path / "a", command="make it").read_bytes()
    assert write_document([outcome], tmp_path / "b", command="make it").read_bytes() == first


def test_the_document_opens_with_the_command_and_how_to_read_it(tmp_path: Path, outcome: ExperimentOutcome) -> None:
    opening = write_document([outcome], tmp_path / "results", command="make it").read_text().split("## Claims")[0]
    assert "Written by `make it`" in opening
    assert all(f"**{verdict.value}**" in opening for verdict in PaperVerdict)


def test_a_partial_run_says_that_it_is_one(tmp_path: Path, outcome: ExperimentOutcome) -> None:
    document = write_document([outcome], tmp_path / "results", command="make it", note="**A part**")
    assert "**A part" in document.read_text()
