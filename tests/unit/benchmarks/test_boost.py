"""The tail-aware paper's experiments in small."""

from dataclasses import replace
from pathlib import Path

import pytest

from justitia_benchmarks.experiment import Cell, Experiment, PaperVerdict
from justitia_benchmarks.experiments.boost import BoostFront, BoostStarvation, Load, Sensitivity, Table
from justitia_benchmarks.experiments.boost_serving import (
    LARGE,
    SMALL,
    alone,
    at_load,
    capacity,
    contender,
    engine_of,
    figures,
    mix,
    serve,
)
from justitia_benchmarks.reports import boost as reports
from justitia_scheduling.policies.uniboost import UniBoost
from justitia_simulator.workload import WorkloadRun

SMALL_CELLS: list[tuple[Experiment, list[Cell]]] = [
    (Table(), [Cell({"engine": LARGE, "mix": "heavy-70", "swap": False, "requests": 30}, seed) for seed in (0, 1)]),
    (Load(), [Cell({"mix": "light-70", "rho": rho, "requests": 30}, seed) for seed in (0, 1) for rho in (0.5, 1.0)]),
    (BoostFront(), [Cell({"mix": "light-70", "requests": 30}, seed) for seed in (0, 1)]),
    (Sensitivity(), [Cell({"chunk": 1024, "requests": 30}, seed) for seed in (0, 1)]),
    (BoostStarvation(), [Cell({"requests": 30}, seed) for seed in (0, 1)]),
]


@pytest.mark.parametrize(("experiment", "cells"), SMALL_CELLS, ids=lambda v: getattr(v, "name", ""))
def test_the_same_cell_gives_the_same_figures_and_a_report_draws_them(
    experiment: Experiment, cells: list[Cell], tmp_path: Path
) -> None:
    rows = [(cell, experiment.run(cell)) for cell in cells]
    assert experiment.run(cells[0]) == rows[0][1]
    claims = experiment.report(rows, tmp_path)
    assert claims
    assert any(path.suffix == ".md" for path in tmp_path.iterdir())


def test_quick_cells_are_few_and_whole_ones_have_ten_seeds() -> None:
    for experiment, _ in SMALL_CELLS:
        assert len({cell.seed for cell in experiment.cells(quick=False)}) == 10
        assert len(experiment.cells(quick=True)) <= 2


def test_a_backlog_that_is_never_empty_takes_what_the_capacity_says() -> None:
    profile = engine_of(SMALL)
    runs = mix("light-70", 150, 3, profile)
    tokens = sum(r.prompt_tokens + r.output_tokens for run in runs for r in run.requests)
    makespan = max(
        r.finished or 0.0 for r in serve("sarathi", [replace(r, arrival=0.0) for r in runs], profile).requests
    )
    assert tokens / makespan <= capacity(runs, profile) <= 1.6 * tokens / makespan


def test_utilisation_is_the_arriving_work_over_the_capacity() -> None:
    profile = engine_of(SMALL)
    runs = mix("light-70", 150, 3, profile)
    half, whole = at_load(runs, profile, 0.5), at_load(runs, profile, 1.0)
    assert half[-1].arrival == pytest.approx(2 * whole[-1].arrival)
    tokens = sum(r.prompt_tokens + r.output_tokens for run in runs for r in run.requests)
    drawn_rate = len(runs) / runs[-1].arrival
    rate = len(whole) / whole[-1].arrival
    assert rate / drawn_rate * tokens / len(runs) == pytest.approx(capacity(runs, profile))


def test_nobody_is_faster_than_alone() -> None:
    profile = engine_of(SMALL)
    runs = at_load(mix("light-70", 40, 3, profile), profile, 0.9)
    floor = alone(runs, profile)
    for policy in ("srpt", "sarathi", "uniboost"):
        served = figures(serve(policy, runs, profile))
        assert all(served[measure] >= floor[measure] for measure in ("mean", "p99", "max", "largest", "ttft-mean"))


def test_settings_of_uniboost_are_read_from_its_name() -> None:
    policy = contender("uniboost:gamma=0.03,quantum=64,delta=0")
    assert isinstance(policy, UniBoost)
    assert (policy.quantum, policy.delta, policy.boosting.tail.gamma) == (64, 0.0, 0.03)
    for _ in range(1000):
        policy.boosting.tail.observe(1.0)
    assert policy.boosting.tail.gamma == 0.03


def test_what_is_preempted_is_swapped_or_recomputed_as_asked() -> None:
    profile = engine_of(SMALL, swap=True)
    runs: list[WorkloadRun] = [replace(run, arrival=0.0) for run in mix("light-70", 150, 1, profile)]
    swapped, recomputed = (figures(serve("sarathi", runs, p)) for p in (profile, engine_of(SMALL)))
    assert swapped["preemptions"] > 0
    assert swapped["throughput"] != recomputed["throughput"]


MEASURES = (*reports.MEASURES, *reports.FRONT, "preemptions")


@pytest.mark.parametrize(
    ("latency", "verdict"),
    [((0.6, 0.6), PaperVerdict.BEATEN), ((0.60, 0.69), PaperVerdict.REACHED), ((0.7, 0.72), PaperVerdict.NOT_REACHED)],
)
def test_a_claim_is_beaten_only_with_its_whole_interval(
    latency: tuple[float, float], verdict: PaperVerdict, tmp_path: Path
) -> None:
    rows = []
    for seed, scale in enumerate(latency):
        figures_of = {p: dict.fromkeys(MEASURES, 2.0) for p in ("srpt", "alone", "uniboost", *reports.TABLE_2)}
        figures_of["uniboost-paper"] = dict.fromkeys(MEASURES, 2.0 * scale)
        rows.append((Cell({"engine": LARGE, "mix": "heavy-70", "swap": False}, seed), figures_of))
    claims = {claim.claim: claim for claim in reports.table(rows, tmp_path)}
    assert claims["Table 2, 70 % reasoning: uniboost-paper improves p99 over TRAIL+, %"].verdict is verdict
    assert claims["Table 2, 70 % reasoning: distboost improves p99 over TRAIL+, %"].verdict is PaperVerdict.NOT_REACHED
