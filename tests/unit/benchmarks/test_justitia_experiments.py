"""The paper's experiments in small: the same cell gives the same figures, and figures mean what they say."""

from pathlib import Path

import pytest

from justitia_benchmarks.experiment import Cell, Experiment
from justitia_benchmarks.experiments.justitia.completion import POLICIES, CompletionTime
from justitia_benchmarks.experiments.justitia.misprediction import Misprediction
from justitia_benchmarks.experiments.justitia.overhead import SchedulingTime, Timed
from justitia_benchmarks.experiments.justitia.serving import (
    CONTENDED_LOAD,
    LOADS,
    MODELS,
    REFERENCE,
    as_served,
    built,
    load_of,
    profile_of,
    suite,
)
from justitia_benchmarks.experiments.justitia.starvation import Starvation, elephant_among_mice
from justitia_scheduling.core.model import Request, Run
from justitia_simulator.profiles import Preemption, find_profile
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

CONTENDED = Cell({"model": REFERENCE, "load": "3x", "runs": 50}, 0)
SMALL = [
    (CompletionTime(), CONTENDED),
    (Starvation(), Cell({"policy": "srjf", "every": 1.0, "mice": 5}, 0)),
    (Misprediction(), Cell({"policy": "justitia", "factor": 3.0, "runs": 50}, 0)),
]


@pytest.mark.parametrize(("experiment", "cell"), SMALL, ids=lambda v: getattr(v, "name", ""))
def test_the_same_cell_gives_the_same_figures(experiment: Experiment, cell: Cell) -> None:
    assert experiment.run(cell) == experiment.run(cell)


def test_a_run_under_vtc_finishes_exactly_when_it_does_under_vtc(tmp_path: Path) -> None:
    experiment = CompletionTime()
    figures = experiment.run(CONTENDED)
    policies = figures["policies"]
    assert isinstance(policies, dict)
    vtc = policies["vtc"]
    assert (vtc["worst"], vtc["not_later"], vtc["not_late"], vtc["worst_later_by"]) == (1.0, 1.0, 1.0, 0.0)
    assert set(policies) == set(POLICIES)
    claims = experiment.report([(CONTENDED, figures), (Cell(CONTENDED.parameters, 1), figures)], tmp_path)
    assert {p.suffix for p in tmp_path.iterdir()} == {".md", ".png"}
    assert all(claim.paper and claim.why for claim in claims)


@pytest.mark.parametrize(
    ("experiment", "parameters"),
    [
        (Starvation(), {"policy": ("vtc", "srjf", "justitia", "tiered-justitia"), "every": (1.0, 1.5), "mice": (2, 4)}),
        (Misprediction(), {"policy": ("justitia", "tiered-justitia", "srjf"), "factor": (1.0, 3.0), "runs": (20,)}),
        (SchedulingTime(), {"policy": ("justitia", "tiered-justitia"), "rate": (15, 100), "runs": (20,)}),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_reports_draw_their_rows_and_decide_claims_of_both_policies(
    experiment: Experiment, parameters: dict[str, tuple[str | float, ...]], tmp_path: Path
) -> None:
    (first, policies), (second, values), (third, others) = parameters.items()
    cells = [
        Cell({first: a, second: b, third: c}, seed) for seed in (0, 1) for a in policies for b in values for c in others
    ]
    claims = experiment.report([(cell, experiment.run(cell)) for cell in cells], tmp_path)
    assert {p.suffix for p in tmp_path.iterdir()} == {".md", ".png"}
    for policy in ("justitia", "tiered-justitia"):
        assert any(f", {policy}" in claim.claim for claim in claims)


def test_cells_are_of_twenty_paired_seeds_on_the_papers_densities_and_of_ten_at_least() -> None:
    seeds: dict[tuple[str, str], set[int]] = {}
    for cell in CompletionTime().cells(False):
        seeds.setdefault((str(cell.parameters["model"]), str(cell.parameters["load"])), set()).add(cell.seed)
    assert {load for model, load in seeds if model == REFERENCE} == set(LOADS)
    assert {model for model, _ in seeds} == set(MODELS)
    assert all(len(of) >= 10 for of in seeds.values())
    assert all(len(seeds[REFERENCE, load]) == 20 for load in ("2x", "3x"))


def test_the_engine_of_the_papers_model_has_its_kv_space_and_vllms_habits_of_the_time() -> None:
    base, profile = find_profile("a100-40g-llama2-7b"), profile_of(REFERENCE)
    assert (profile.kv_tokens, profile.block_size) == (459 * 16, 16)
    assert (profile.preemption, profile.token_budget) == (Preemption.SWAP, None)
    assert profile.timing == base.timing


@pytest.mark.parametrize(("model", "layers", "kv"), [("13B", 0.8331, 0.6749), ("32B", 3.7114, 0.3813)])
def test_a_larger_model_is_as_much_slower_as_its_parameters_and_bandwidth_say(
    model: str, layers: float, kv: float
) -> None:
    """13 / 6.74 * 1555 / 3600 and 819200 / 524288 * 1555 / 3600; likewise 32.8, 2039 and 262144."""
    base, larger = profile_of(REFERENCE).timing, profile_of(model).timing
    overhead = find_profile("a100-40g-llama2-7b").timing.overhead  # type: ignore[union-attr]
    for prefilled in (64, 2048):
        both = [timing.step(prefilled, 0, 0) - overhead for timing in (larger, base)]
        assert both[0] / both[1] == pytest.approx(layers, abs=1e-4)
    read = [timing.step(0, 1, 10_000) - timing.step(0, 1, 0) for timing in (larger, base)]
    assert read[0] / read[1] == pytest.approx(kv, abs=1e-4)


@pytest.mark.parametrize("load", LOADS)
def test_a_load_is_what_its_name_says(load: str) -> None:
    workload = suite(0, load, 100)
    step = profile_of(REFERENCE).timing.step(0, 40, 7_344)  # As for any number up to 64.
    u = sum(run.cost for run in workload) * step / (7_344 * workload[-1].arrival)
    assert load_of(workload, REFERENCE) == pytest.approx(u)
    if load.startswith("u="):
        assert u == pytest.approx(CONTENDED_LOAD)
        assert all(run.application != "DM" for run in workload)
    else:
        assert workload[-1].arrival <= {"1x": 360, "2x": 180, "3x": 120}[load]


def test_a_prompt_is_cut_to_what_fits_beside_its_output_and_shares_nothing() -> None:
    requests = (WorkloadRequest(8_000, 400, "p", 100), WorkloadRequest(100, 9_000), WorkloadRequest(300, 50))
    run = WorkloadRun(RunId("r"), TenantId("t"), ApplicationId("MRS"), 0.0, (WorkloadStage(requests),))
    assert as_served(run).requests == (WorkloadRequest(6_944, 400), WorkloadRequest(1, 7_343), WorkloadRequest(300, 50))


def test_small_runs_come_at_their_rate_whatever_their_number() -> None:
    few, many = elephant_among_mice(3, 1.5, seed=0), elephant_among_mice(6, 1.5, seed=0)
    assert many[:4] == few
    assert [run.arrival for run in many] == [0.0, 1.0, 2.5, 4.0, 5.5, 7.0, 8.5]


def test_scheduling_time_belongs_to_the_moment_it_is_spent_at() -> None:
    timed = Timed(built("justitia"))
    told = timed.__getattr__
    run = Run(RunId("r"), TenantId("t"), ApplicationId("a"), 100.0)
    for name, arguments in (
        ("set_capacity", (7_344, 0.0)),
        ("run_arrived", (run, 1.0)),
        ("request_arrived", (Request(RequestId("q"), run.id, 10), 1.0)),
        ("time_passed", (1.0,)),
        ("head", ()),
        ("time_passed", (2.0,)),
    ):
        method = told(name)
        assert callable(method)
        method(*arguments)
    assert [of_run for _, of_run in timed.moments()] == [False, True, False]
    assert all(milliseconds >= 0 for milliseconds, _ in timed.moments())
    assert told("running") == {}
