"""The paper's experiments in small: the same cell gives the same figures, and figures mean what they say."""

from pathlib import Path

import pytest

from justitia_benchmarks.experiment import Cell, Experiment
from justitia_benchmarks.experiments.justitia.completion import CompletionTime
from justitia_benchmarks.experiments.justitia.misprediction import Misprediction, wrong_by
from justitia_benchmarks.experiments.justitia.serving import profile_of, suite
from justitia_benchmarks.experiments.justitia.starvation import Starvation
from justitia_simulator.profiles import find_profile

SMALL = [
    (CompletionTime(), Cell({"model": "7B-A10G", "density": "2x", "runs": 50}, 0)),
    (Starvation(), Cell({"policy": "srjf", "mice": 5}, 0)),
    (Misprediction(), Cell({"policy": "justitia", "factor": 3.0, "runs": 50}, 0)),
]


@pytest.mark.parametrize(("experiment", "cell"), SMALL, ids=lambda v: getattr(v, "name", ""))
def test_the_same_cell_gives_the_same_figures(experiment: Experiment, cell: Cell) -> None:
    assert experiment.run(cell) == experiment.run(cell)


def test_a_run_under_vtc_finishes_exactly_when_it_does_under_vtc(tmp_path: Path) -> None:
    experiment, cell = CompletionTime(), SMALL[0][1]
    figures = experiment.run(cell)
    vtc = figures["vtc"]
    assert isinstance(vtc, dict)
    assert (vtc["worst"], vtc["not_later"], vtc["not_late"]) == (1.0, 1.0, 1.0)
    claims = experiment.report([(cell, figures), (Cell(cell.parameters, 1), figures)], tmp_path)
    assert {p.suffix for p in tmp_path.iterdir()} == {".md", ".png"}
    assert all(claim.paper for claim in claims)


def test_wrong_costs_stay_within_the_factor_and_are_drawn_on_both_sides() -> None:
    workload = suite(0, "2x", 100)
    told = wrong_by(3.0, 0).tell(workload)
    ratios = sorted((told[run.id].cost or 0.0) / run.cost for run in workload)
    assert 1 / 3 <= ratios[0] < 0.5
    assert 2 < ratios[-1] <= 3


def test_a_scaled_engine_is_as_much_slower_in_every_term() -> None:
    base, scaled = find_profile("a10g-llama2-7b").timing, profile_of("7B-A100").timing
    for prefilled, decoding, kv_read in ((1000, 0, 0), (0, 8, 4000), (0, 1, 100)):
        ratio = scaled.step(prefilled, decoding, kv_read) / base.step(prefilled, decoding, kv_read)
        assert ratio == pytest.approx(600 / 1555)
