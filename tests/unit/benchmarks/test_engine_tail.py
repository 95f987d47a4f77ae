"""The bench of UniBoost's tail: policies that are told costs, the load, the cells, and what the document says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_benchmarks.engine.tail_plan import (
    ADAPTIVE,
    HEAVY,
    OVERLOADED,
    QUICK_TAIL,
    SERVED_WAYS,
    SIMULATED_WAYS,
    TRAIL,
    TRAIL_AGAIN,
    TUNED,
    WHOLE_TAIL,
    Capacity,
    Served,
    Simulated,
    TailCell,
    Tuning,
    requests_for,
    tail_cells,
)
from justitia_benchmarks.engine.tail_policies import (
    QUANTUM_HERE,
    SmallUniBoost,
    ToldSJF,
    TrailPlus,
    output_of_cost,
)
from justitia_benchmarks.engine.tail_simulation import GAMMAS, profile_of, simulated, tuned_gamma
from justitia_benchmarks.engine.tail_workload import (
    SPACE,
    at_load,
    at_once,
    capacity_of,
    requests,
    tokens_of,
)
from justitia_benchmarks.reports.engine_tail import COMPARED, Gain, write_tail_document
from justitia_scheduling.core.cost import EngineTime, StepTime
from justitia_scheduling.core.model import kv_token_time
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.sjf import SJF
from justitia_scheduling.policies.srpt import SRPT
from justitia_simulator.engine import Engine
from justitia_simulator.prediction import MEAN, TRUE, PredictionSource, Told
from justitia_simulator.records import RequestResult

MIXES = WHOLE_TAIL.mixes
STEP = StepTime(0.0015, 0.000035, 0.0000003)
PROFILE = profile_of(STEP)
SPEED = dict.fromkeys(MIXES, 6000.0)
COSTS_ONLY = PredictionSource(
    "costs", lambda runs: {run: Told(told.cost, [None]) for run, told in TRUE.tell(runs).items()}
)
"""What a ticket says."""


@given(prompt=st.integers(1, 100_000), output=st.integers(1, 100_000))
def test_a_cost_tells_the_output(prompt: int, output: int) -> None:
    assert output_of_cost(kv_token_time(prompt, output), prompt) == pytest.approx(output, rel=1e-6)


@pytest.mark.parametrize(("told", "knowing"), [(TrailPlus, SRPT), (ToldSJF, SJF)])
def test_told_costs_serve_as_told_lengths_do(told: type[Policy], knowing: type[Policy]) -> None:
    runs = at_load(requests("heavy-70", 80, seed=1), 1.5, capacity=6000.0)

    def ends(policy: type[Policy], prediction: PredictionSource) -> list[float | None]:
        served = Engine(policy(EngineTime(STEP)), PROFILE, label="served", prediction=prediction).serve(runs)
        return [r.finished for r in served.requests]

    assert ends(told, COSTS_ONLY) == ends(knowing, TRUE)
    assert ends(told, MEAN) == ends(knowing, MEAN), "without costs both go by running means"
    assert ends(told, COSTS_ONLY) != ends(told, MEAN), "negative control: lengths matter here"


def test_uniboost_has_a_quantum_in_proportion_to_the_lengths() -> None:
    assert SmallUniBoost(EngineTime(STEP)).quantum == QUANTUM_HERE == 26


@pytest.mark.parametrize("mix", MIXES)
def test_every_request_fits_into_the_engine(mix: str) -> None:
    assert max(tokens_of([run]) for run in requests(mix, 3000, seed=1)) < SPACE.longest <= SPACE.tokens


def result(first: float, finished: float) -> RequestResult:
    return RequestResult("p", "r", "t", "a", 0, 0.0, 0.0, None, first, finished, 100, 50, 0, "finished")


def test_capacity_counts_what_is_processed_while_requests_wait() -> None:
    served = [result(0.0, 10.0), result(1.0, 3.0), result(5.0, 9.0)]
    assert capacity_of(served) == pytest.approx((125 + 150 + 100) / 5.0)


def test_an_answer_of_one_chunk_has_been_processed_whole() -> None:
    assert capacity_of([result(1.0, 1.0)]) == pytest.approx(150.0)


@pytest.mark.parametrize("rho", [0.5, 0.99])
def test_work_arrives_at_the_load(rho: float) -> None:
    runs = at_load(requests("heavy-70", 2000, seed=1), rho, capacity=5000.0)
    assert tokens_of(runs) / runs[-1].arrival == pytest.approx(rho * 5000.0, rel=0.05)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("capacity", [1500.0, 6000.0, 24000.0], ids=["slow", "as here", "fast"])
def test_requests_arrive_for_as_long_on_any_engine(mix: str, capacity: float) -> None:
    runs = requests(mix, requests_for(mix, 25.0, capacity), seed=1)
    assert at_load(runs, 1.0, capacity)[-1].arrival == pytest.approx(25.0, rel=0.2)


def test_every_way_is_served_once_for_each_seed_after_its_capacity_is_known() -> None:
    order = list(tail_cells(WHOLE_TAIL, SPEED))
    for load in (HEAVY, OVERLOADED):
        for seed in range(1, WHOLE_TAIL.seeds + 1):
            served = [c for c in order if isinstance(c, Served) and (c.load, c.capacity.seed) == (load, seed)]
            assert sorted(c.way.name for c in served) == sorted(way.name for way in SERVED_WAYS)
            assert all(c.capacity.mix == load.mix for c in served)
            assert all(order.index(c.capacity) < order.index(c) for c in served)
    gammas = [c for c in order if isinstance(c, Tuning)]
    assert order[: len(gammas)] == gammas, "gamma is tuned before it is used"
    assert len({c.digest for c in order}) == len(order), "each has a result and prompts of its own"


def test_a_look_has_one_seed() -> None:
    assert {c.seed for c in tail_cells(QUICK_TAIL, SPEED) if isinstance(c, Capacity)} == {1}


def test_the_tuned_gamma_has_the_least_simulated_p99() -> None:
    """Under light lengths a gamma near 0 starves the longest, whose time P99 is."""
    assert tuned_gamma(Tuning(OVERLOADED, 120), PROFILE) >= 1.0
    assert GAMMAS[0] < 1.0


def test_all_ways_are_simulated_on_the_same_requests() -> None:
    cell = Simulated(HEAVY, Capacity("heavy-70", 60, 1))
    found = simulated(cell, PROFILE, gamma=1.0)
    assert set(found["ways"]) == {way.name for way in SIMULATED_WAYS}
    backlog = at_once(requests("heavy-70", 60, 1))
    assert 0 < found["tokens_per_second"] < tokens_of(backlog) / STEP.per_step


def written(folder: Path, ratios: tuple[float, ...]) -> str:
    """The document where UniBoost's figures are so many times TRAIL+'s, by seed."""
    cells: dict[TailCell, Mapping[str, Any]] = {Tuning(HEAVY, 500): {"gamma": 3.0}}
    figures = dict.fromkeys((*COMPARED, "preemptions"), 2.0)
    for seed, ratio in enumerate(ratios, 1):
        of_seed = Capacity("heavy-70", 500, seed)
        cells[of_seed] = {"tokens_per_second": 5000.0}
        ways = {way.name: figures for way in SIMULATED_WAYS}
        cells[Simulated(HEAVY, of_seed)] = {"tokens_per_second": 5500.0, "ways": ways}
        for way in SERVED_WAYS:
            factor = ratio if way in {ADAPTIVE, TUNED} else 1.0
            cells[Served(HEAVY, of_seed, way)] = {name: factor * value for name, value in figures.items()}
    return write_tail_document(cells, folder).read_text()


@pytest.mark.parametrize(
    ("ratios", "gain"),
    [
        ((0.6, 0.7, 0.65), Gain.SHOWN),
        ((0.6, 1.1, 0.9), Gain.NOT_SHOWN),
        ((1.4, 1.5, 1.45), Gain.LOSS),
        ((0.6,), Gain.UNKNOWN),
    ],
    ids=["all lower", "some lower", "all higher", "one seed tells nothing"],
)
def test_a_gain_is_shown_with_its_whole_interval(tmp_path: Path, ratios: tuple[float, ...], gain: Gain) -> None:
    text = written(tmp_path, ratios)
    assert f"- {TUNED.name}, a P99 below TRAIL+'s: {gain} ({HEAVY.text}).\n" in text
    (line,) = [x for x in text.splitlines() if f"| {TUNED.name} | P99 |" in x]
    assert line.endswith(f"| {gain} |")


def test_the_document_compares_trail_plus_with_itself(tmp_path: Path) -> None:
    text = written(tmp_path, (0.6, 0.7))
    assert f"| {TRAIL_AGAIN.name} | 1.00 (1.00 to 1.00, n = 2) |" in text
    assert "capacity 5,000 tokens/s, simulated 1.10 of it" in text


def test_a_bench_that_has_just_begun_has_a_document(tmp_path: Path) -> None:
    of_seed = Capacity("heavy-70", 500, 1)
    text = write_tail_document({Tuning(HEAVY, 500): {"gamma": 3.0}, of_seed: {"tokens_per_second": 1.0}}, tmp_path)
    assert TRAIL.name in text.read_text()
