"""The fit on synthetic measurements of an engine whose step times are known."""

import random
from collections.abc import Callable
from dataclasses import dataclass, fields
from statistics import fmean

import numpy as np
import pytest

from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime
from justitia_simulator.calibration import (
    TOLERATED_ERROR,
    ArrivalSample,
    CalibrationError,
    DecodeSample,
    PrefillSample,
    StepFit,
    build_profile,
    fit_steps,
    nonnegative_least_squares,
)
from justitia_simulator.engine import Engine
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, TenantId

BUDGET = 2048
LENGTHS = (16, 64, 256, 512, 1024, 2047, 4000, 7000)
CONTEXTS = ((1, 36), (1, 2000), (2, 80), (2, 4000), (4, 160), (4, 7200), (8, 350), (8, 7100), (16, 700), (16, 6900))
ARRIVALS = ((4, 8, 16), (4, 8, 256), (8, 16, 16), (8, 16, 256))
"""Decoding, prompts that come, tokens of each."""

ROUNDS = 5


@dataclass(frozen=True)
class Truth:
    """An engine whose steps take exactly the time that the fit supposes."""

    per_step: float = 6e-3
    per_prefill_token: float = 35e-6
    per_attended: float = 0.02e-6
    per_decode: float = 0.4e-3
    per_kv_token: float = 0.5e-6
    per_request: float = 5e-3
    latency: float = 10e-3

    def step(self, batch: int, kv_tokens: int) -> float:
        return self.per_step + self.per_decode * batch + self.per_kv_token * kv_tokens

    def prompt(self, tokens: int) -> float:
        return self.per_prefill_token * tokens + self.per_attended * tokens**2 / 2 + self.per_request

    def first_token(self, tokens: int) -> float:
        before = range(0, tokens, BUDGET)
        return self.latency + len(before) * self.per_step + self.per_kv_token * sum(before) + self.prompt(tokens)


Disturb = Callable[[float], float]


def decoded(truth: Truth, disturb: Disturb = float) -> list[DecodeSample]:
    return [DecodeSample(n, kv, disturb(truth.step(n, kv))) for _ in range(ROUNDS) for n, kv in CONTEXTS]


def prefilled(truth: Truth, disturb: Disturb = float) -> list[PrefillSample]:
    return [PrefillSample(p, disturb(truth.first_token(p))) for _ in range(ROUNDS) for p in LENGTHS]


def arrived(truth: Truth, disturb: Disturb = float) -> list[ArrivalSample]:
    """As many steps as prompts, as behind a gateway that lets in one a step."""
    return [
        ArrivalSample(n, 60 * n, prompts, p, prompts, disturb(prompts * (truth.step(n, 60 * n) + truth.prompt(p))))
        for _ in range(ROUNDS)
        for n, prompts, p in ARRIVALS
    ]


def coefficients(of: Truth | StepFit) -> tuple[float, ...]:
    prompts = of.per_prefill_token, of.per_attended, of.per_request
    return of.per_step, *prompts, of.per_decode, of.per_kv_token, of.latency


@pytest.mark.parametrize(
    "truth",
    [
        Truth(),
        Truth(per_step=52e-3, per_prefill_token=0.2115e-3, per_decode=0.244e-3, per_kv_token=2.02e-6, per_request=0.0),
        Truth(per_kv_token=0.0, per_attended=0.0, per_request=30e-3, latency=0.0),
    ],
    ids=["a tiny model on a CPU", "the A10G's constants", "other coefficients that are zero"],
)
def test_exact_measurements_give_the_truth_back(truth: Truth) -> None:
    fit = fit_steps(decoded(truth), prefilled(truth), arrived(truth), BUDGET)
    assert coefficients(fit) == pytest.approx(coefficients(truth), rel=1e-6, abs=1e-12)
    assert fit.error < 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_ten_percent_of_noise_and_stalls_leave_predictions_within_ten_percent(seed: int) -> None:
    drawn = random.Random(seed)

    def disturb(value: float) -> float:
        noisy = value * drawn.uniform(0.9, 1.1)
        return noisy * 10 if drawn.random() < 0.08 else noisy

    truth = Truth()
    fit = fit_steps(decoded(truth, disturb), prefilled(truth, disturb), arrived(truth, disturb), BUDGET)
    for n, kv in CONTEXTS:
        said = fit.per_step + fit.per_decode * n + fit.per_kv_token * kv
        assert said == pytest.approx(truth.step(n, kv), rel=0.1), (n, kv)
    said_of = Truth(*(getattr(fit, field.name) for field in fields(Truth)))
    for tokens in LENGTHS:
        assert said_of.first_token(tokens) == pytest.approx(truth.first_token(tokens), rel=0.1), tokens
        assert said_of.prompt(tokens) == pytest.approx(truth.prompt(tokens), rel=0.15), tokens


def test_stalls_do_not_move_the_fit_where_their_mean_would_make_it_useless() -> None:
    """The averages are the negative control: they show that these stalls are worth guarding against."""
    truth = Truth()
    stalled = [s if i % 12 else DecodeSample(s.batch, s.kv_tokens, s.step * 10) for i, s in enumerate(decoded(truth))]
    fit = fit_steps(stalled, prefilled(truth), arrived(truth), BUDGET)
    for n, kv in CONTEXTS:
        assert fit.per_step + fit.per_decode * n + fit.per_kv_token * kv == pytest.approx(truth.step(n, kv), rel=0.01)
    averaged = [
        DecodeSample(n, kv, fmean(s.step for s in stalled if (s.batch, s.kv_tokens) == (n, kv))) for n, kv in CONTEXTS
    ]
    with pytest.raises(CalibrationError, match="the fit is off by"):
        fit_steps(averaged, prefilled(truth), arrived(truth), BUDGET)


def test_chunk_boundaries_are_not_taken_for_a_cost_of_tokens() -> None:
    """Negative control: the same first tokens, taken for single steps, cannot be described exactly."""
    truth = Truth(per_step=60e-3)
    right = fit_steps(decoded(truth), prefilled(truth), arrived(truth), BUDGET)
    wrong = fit_steps(decoded(truth), prefilled(truth), arrived(truth), None)
    assert coefficients(right) == pytest.approx(coefficients(truth))
    assert wrong.per_attended > 1.3 * truth.per_attended
    assert abs(wrong.worst.error) > 0.03 > abs(right.worst.error)


def test_steps_of_another_form_are_refused_and_not_blamed_on_noise() -> None:
    jumping = [DecodeSample(n, kv, 1e-3 * (1 if n in {1, 4, 16} else 30)) for n, kv in CONTEXTS for _ in range(ROUNDS)]
    with pytest.raises(CalibrationError, match=r"varies by only .* do not follow a linear step time"):
        fit_steps(jumping, prefilled(Truth()), arrived(Truth()), BUDGET)


def test_noise_that_drowns_everything_is_refused_as_noise() -> None:
    drawn = random.Random(3)

    def noise(value: float) -> float:
        return value * 10 ** drawn.uniform(-1.5, 1.5)

    with pytest.raises(CalibrationError, match="quieter machine"):
        fit_steps(decoded(Truth(), noise), prefilled(Truth(), noise), arrived(Truth(), noise), BUDGET)


def test_a_curved_engine_shows_in_the_residuals_before_it_is_refused() -> None:
    truth = Truth()
    curved = [DecodeSample(s.batch, s.kv_tokens, s.step * (1 + s.batch / 16)) for s in decoded(truth)]
    fit = fit_steps(curved, prefilled(truth), arrived(truth), BUDGET)
    straight = fit_steps(decoded(truth), prefilled(truth), arrived(truth), BUDGET)
    assert straight.error < 0.001
    assert 0.01 < fit.error < TOLERATED_ERROR
    assert abs(fit.worst.error) > 0.05


@pytest.mark.parametrize(
    ("decode", "prefill", "arrivals", "what"),
    [
        ([s for s in decoded(Truth()) if s.batch < 4], prefilled(Truth()), arrived(Truth()), r"batch sizes \[1, 2\]"),
        (
            decoded(Truth()),
            [s for s in prefilled(Truth()) if s.prompt_tokens < 100],
            arrived(Truth()),
            r"prompts of \[16, 64\]",
        ),
        (decoded(Truth()), prefilled(Truth()), [], "no prompts came while others decoded"),
        ([DecodeSample(n, 100 * n, 0.01) for n in (1, 2, 4, 8)], prefilled(Truth()), arrived(Truth()), "grew together"),
        ([*decoded(Truth()), DecodeSample(1, 1, 0.0)], prefilled(Truth()), arrived(Truth()), "took no time"),
        (decoded(Truth()), prefilled(Truth()), [ArrivalSample(1, 1, 1, 1, 1, 0.0)], "took no time"),
        ([], [], [], "batch sizes"),
    ],
    ids=[
        "two batch sizes",
        "two prompt lengths",
        "no arrivals",
        "KV in step with the batch",
        "a step of no time",
        "an arrival of no time",
        "nothing",
    ],
)
def test_data_that_support_no_fit_are_refused(
    decode: list[DecodeSample], prefill: list[PrefillSample], arrivals: list[ArrivalSample], what: str
) -> None:
    with pytest.raises(CalibrationError, match=what):
        fit_steps(decode, prefill, arrivals, BUDGET)


def test_a_residual_names_its_point_and_the_spread_of_its_repetitions() -> None:
    truth = Truth()
    samples = decoded(truth)
    samples[0] = DecodeSample(samples[0].batch, samples[0].kv_tokens, samples[0].step * 1.2)
    fit = fit_steps(samples, prefilled(truth), arrived(truth), BUDGET)
    first = next(r for r in fit.decode if r.point == "1 decoding, 36 KV tokens")
    assert first.spread == pytest.approx(0.1)
    assert first.error == pytest.approx(0, abs=1e-9)
    assert [len(kind) for kind in (fit.decode, fit.prefill, fit.arrivals)] == [
        len(CONTEXTS),
        len(LENGTHS),
        len(ARRIVALS),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_no_other_nonnegative_coefficients_fit_better(seed: int) -> None:
    """Against the optimality conditions: the gradient is zero where c > 0 and points outwards where c = 0."""
    drawn = np.random.default_rng(seed)
    rows, values = drawn.normal(size=(12, 4)), drawn.normal(size=12)
    c = nonnegative_least_squares(rows, values)
    gradient = rows.T @ (rows @ c - values)
    assert (c >= 0).all()
    assert (gradient[c == 0] >= -1e-9).all()
    assert gradient[c > 0] == pytest.approx(0, abs=1e-9)


def test_attention_among_long_prompts_is_not_taken_for_a_cost_of_short_ones() -> None:
    """Negative control: a straight line through the same first tokens makes every prompt token cost more."""
    quadratic = Truth(per_attended=0.3e-6)
    fit = fit_steps(decoded(quadratic), prefilled(quadratic), arrived(quadratic), BUDGET)
    assert coefficients(fit) == pytest.approx(coefficients(quadratic), rel=1e-6)
    lengths, taken = np.array(LENGTHS), np.array([quadratic.first_token(p) for p in LENGTHS])
    chord = np.polyfit(lengths, taken, 1, w=1 / taken)[0]
    assert chord > 1.5 * quadratic.per_prefill_token


@pytest.mark.parametrize("tokens", LENGTHS)
def test_a_lone_prompt_simulated_with_the_profile_takes_what_was_measured(tokens: int) -> None:
    truth = Truth()
    jct = simulated(truth, [WorkloadStage((WorkloadRequest(tokens, 1),))])
    assert jct == pytest.approx(truth.first_token(tokens))


@pytest.mark.parametrize("prompts", [2, 7])
def test_prompts_beside_a_batch_simulated_with_the_profile_cost_it_what_was_measured(prompts: int) -> None:
    """A long output, and meanwhile short requests one after the other: what each of them adds to its steps."""
    truth = Truth(per_kv_token=0.0, per_attended=0.0)
    alone = simulated(truth, [WorkloadStage((WorkloadRequest(16, 500),))])
    beside = [WorkloadStage((WorkloadRequest(16, 1),)) for _ in range(prompts)]
    together = simulated(truth, [WorkloadStage((WorkloadRequest(16, 500),))], beside)
    assert together - alone == pytest.approx(prompts * truth.prompt(16))


def simulated(truth: Truth, *runs: list[WorkloadStage]) -> float:
    """Seconds that the first run takes on the engine as calibrated; the others come half a second later."""
    fit = fit_steps(decoded(truth), prefilled(truth), arrived(truth), BUDGET)
    profile = build_profile("it", fit, kv_tokens=8192, block_size=32, token_budget=BUDGET, max_requests=64)
    workload = [
        WorkloadRun(RunId(f"r{i}"), TenantId("t"), ApplicationId("a"), 0.5 * bool(i), tuple(stages))
        for i, stages in enumerate(runs)
    ]
    results = Engine(build_policy("fcfs", EngineTime(profile.charge)), profile, label="it").serve(workload).runs
    [first] = [r.jct for r in results if r.run == "r0"]
    assert first is not None
    return first
