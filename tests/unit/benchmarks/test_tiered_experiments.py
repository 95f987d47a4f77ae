"""The experiments with tiered Justitia in small: cells are pure, and each part that is taken away is gone."""

from pathlib import Path

import pytest

from justitia_benchmarks.experiment import Cell, PaperVerdict
from justitia_benchmarks.experiments.agent_runs import full_iteration, jcts
from justitia_benchmarks.experiments.tiered.charges import CHARGES, TENANTS, Charges, Metered, both, half
from justitia_benchmarks.experiments.tiered.completion import Completion
from justitia_benchmarks.experiments.tiered.flood import FLOODERS, LIGHT, OVERLOAD, WEIGHTS, Flood, flood
from justitia_benchmarks.experiments.tiered.gaps import WidestBound, largest_part_of_bound
from justitia_benchmarks.experiments.tiered.serving import (
    LIARS,
    PROFILE,
    THOROUGH_LIARS,
    TRACE_LOAD,
    TRACES,
    agents,
    contender,
    liars_of,
    serve,
    told,
    trace_shaped,
)
from justitia_benchmarks.reports.tiered import NO_WORSE, no_worse
from justitia_benchmarks.statistics import Estimate
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.policies.tiered import BETA, TieredJustitia
from justitia_simulator.arrivals import full_engine_seconds, offered_load
from justitia_simulator.engine import Engine
from justitia_simulator.records import PolicyResults, ServiceSample

WORKLOAD = agents(60, 1, 2.5, {"t1": 1.0})


def times(policy: str, prediction: str, **knobs: float) -> list[float]:
    results = serve(contender(policy, **knobs), WORKLOAD, told(prediction, 1), {}, sample_every=1e9)
    return list(jcts(results).values())


def test_arrivals_make_the_offered_load() -> None:
    assert offered_load(WORKLOAD, PROFILE.kv_tokens, full_iteration(WORKLOAD, PROFILE)) == pytest.approx(2.5)


@pytest.mark.parametrize("scenario", ["one", "weighted"])
def test_the_same_cell_gives_the_same_figures(scenario: str) -> None:
    cell = Cell({"scenario": scenario, "policy": "tiered-justitia", "prediction": "none", "runs": 40}, 3)
    assert Completion().run(cell) == Completion().run(cell)


@pytest.mark.parametrize("part", ["no-prompt-work", "attained-only", "no-revision", "no-stretch"])
def test_each_part_matters_where_nothing_is_known(part: str) -> None:
    assert times(part, "none") != times("tiered-justitia", "none")


def test_without_stretch_is_kappa_one() -> None:
    assert times("no-stretch", "true") == times("tiered-justitia", "true", kappa=1.0)


def test_thorough_liars_understate_their_outputs_and_the_others_tell_the_truth() -> None:
    true, plain, thorough = (told(name, 1).tell(WORKLOAD) for name in ("true", LIARS, THOROUGH_LIARS))
    lying = liars_of(WORKLOAD)
    assert len(lying) == 3
    for run in WORKLOAD:
        assert plain[run.id].cost == thorough[run.id].cost == run.cost / (1000 if run.id in lying else 1)
        ratio = 1000 if run.id in lying else 1
        assert [o * ratio for o in thorough[run.id].outputs if o] == pytest.approx(list(true[run.id].outputs))
        assert plain[run.id].outputs == true[run.id].outputs


def samples(*rows: tuple[float, float, int, float, int]) -> PolicyResults:
    """time, then service and queue of two tenants; a has weight 1, b 2."""
    service = [
        ServiceSample("p", time, tenant, amount, queued, 0)
        for time, a, waits_a, b, waits_b in rows
        for tenant, amount, queued in (("a", a, waits_a), ("b", b, waits_b))
    ]
    return PolicyResults("p", [], [], service, {"a": 1.0, "b": 2.0})


def test_the_widest_gap_is_measured_by_its_bound() -> None:
    results = samples((1, 0, 1, 0, 1), (2, 6, 1, 0, 1), (3, 6, 1, 20, 1))
    policy = TieredJustitia(KVTokenTimeCost(), burst=7.0)
    bound = WidestBound(policy)
    policy.set_capacity(4, 0.0)
    bound.look(10.0)
    assert (bound.slack, bound.in_engine) == (0, 4)
    bound.slack = 1.0
    assert largest_part_of_bound(results, bound) == pytest.approx(10 / (2 + 4 + 2))


@pytest.mark.parametrize(
    ("high", "verdict"),
    [(0.99, PaperVerdict.BEATEN), (NO_WORSE, PaperVerdict.REACHED), (NO_WORSE + 0.01, PaperVerdict.NOT_REACHED)],
)
def test_no_worse_is_decided_by_the_upper_end(high: float, verdict: PaperVerdict) -> None:
    assert no_worse("p99", Estimate(0.95, 0.9, high, 20), "why").verdict is verdict


def test_the_report_of_a_quick_run_compares_vtc_with_itself_as_one(tmp_path: Path) -> None:
    experiment = Completion()
    small = [Cell({**c.parameters, "runs": 15}, c.seed) for c in experiment.cells(True)]
    claims = experiment.report([(c, experiment.run(c)) for c in small], tmp_path)
    assert all(claim.paper and claim.why for claim in claims)
    assert {p.suffix for p in tmp_path.iterdir()} == {".md", ".png"}
    line = next(row for row in (tmp_path / "01-one.md").read_text().splitlines() if row.startswith("| vtc"))
    assert line.count("1.00 (1.00 to 1.00") == 5


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_asks_for_more_than_the_engine_has_by_the_wanted_part(name: str) -> None:
    runs = trace_shaped(name, 400, 1, {"a": 1.0, "b": 1.0})
    work = full_engine_seconds([request for run in runs for request in run.requests], PROFILE)
    assert work / max(run.arrival for run in runs) == pytest.approx(TRACE_LOAD, rel=0.05)
    assert len({run.id for run in runs}) == 400


def test_flooders_ask_for_more_than_their_share_and_the_light_tenant_for_little() -> None:
    runs = flood(1, 300.0)
    work = {t: full_engine_seconds([q for r in runs if r.tenant == t for q in r.requests], PROFILE) for t in WEIGHTS}
    for tenant, weight in FLOODERS.items():
        assert work[tenant] == pytest.approx(OVERLOAD * 300 * weight / 3, rel=0.1)
    assert work[LIGHT] < 30
    assert [run.arrival for run in runs] == sorted(run.arrival for run in runs)
    assert len({run.id for run in runs}) == len(runs)


def test_without_a_burst_shares_are_strict_and_under_srjf_they_are_not(tmp_path: Path) -> None:
    experiment = Flood()
    cells = [
        Cell({**c.parameters, "seconds": 320.0}, 0)
        for c in experiment.cells(True)
        if c.seed == 0 and c.parameters.get("beta", str(BETA)) == str(BETA)
    ]
    rows = [(cell, experiment.run(cell)) for cell in cells]
    errors = {cell.text: figures["error_60"] for cell, figures in rows}
    strict = next(e for text, e in errors.items() if "burst=0.0" in text)
    srjf = next(e for text, e in errors.items() if "srjf" in text)
    assert isinstance(strict, dict)
    assert isinstance(srjf, dict)
    assert strict["p95"] < 0.05 < srjf["p95"]
    assert all(claim.why for claim in experiment.report(rows, tmp_path))
    assert {p.suffix for p in tmp_path.iterdir()} == {".md", ".png"}


def test_the_meter_counts_the_engine_s_time_whatever_is_charged() -> None:
    workload = both(0)[:40]
    seconds = []
    for charged in CHARGES.values():
        meter = Metered(charged, 1e9)
        results = Engine(TieredJustitia(meter), PROFILE, label="x", prediction=told("true", 0)).serve(workload)
        seconds.append(sum(meter.taken.values()))
        assert max(run.finished or 0.0 for run in results.runs) >= seconds[-1]
    assert seconds == pytest.approx([seconds[0]] * 3, rel=0.2)


def test_the_meter_stops_after_its_seconds() -> None:
    meter = Metered(CHARGES["p + 2d"], 5.0)
    Engine(TieredJustitia(meter), PROFILE, label="x", prediction=told("true", 0)).serve(both(0)[:40])
    assert 4.0 < sum(meter.taken.values()) < 8.0


def test_half_an_engine_takes_twice_as_long() -> None:
    assert half(PROFILE).timing.step(500, 7, 4000) == pytest.approx(2 * PROFILE.timing.step(500, 7, 4000))


def test_charges_are_reported_by_tenant(tmp_path: Path) -> None:
    shares = {"share": 0.5, "slowdown": 1.0}
    rows = [(Cell({"charge": charge}, seed), dict.fromkeys(TENANTS, shares)) for charge in CHARGES for seed in (0, 1)]
    assert Charges().report(rows, tmp_path) == []
    assert (tmp_path / "1-charges.md").read_text().count("0.500 (0.500 to 0.500, n = 2)") == 6
