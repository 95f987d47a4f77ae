"""What policies are told of runs."""

from math import exp, log

import pytest

from justitia_simulator.prediction import TRUE, find_prediction
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage

RUNS = [
    WorkloadRun(f"r{i}", "t", "a", float(i), (WorkloadStage((WorkloadRequest(100, 10 + i), WorkloadRequest(50, 20))),))
    for i in range(400)
]
TRUTH = TRUE.tell(RUNS)


def test_noise_is_log_uniform_within_its_factor_and_the_same_for_every_policy_of_a_seed() -> None:
    told = find_prediction("noisy:3", seed=5).tell(RUNS)
    errors = [log((t.cost or 0.0) / (TRUTH[run].cost or 1.0)) for run, t in told.items()]
    assert -log(3) <= min(errors) < -0.95 * log(3)
    assert 0.95 * log(3) < max(errors) <= log(3)
    assert sum(abs(e) < log(3) / 2 for e in errors) == pytest.approx(200, abs=35)
    for run, t in told.items():
        for output, true in zip(t.outputs, TRUTH[run].outputs, strict=True):
            assert exp(-log(3)) * 0.999 < (output or 0.0) / (true or 1.0) < 3.001
    assert find_prediction("noisy:3", seed=5).tell(RUNS[::-1]) == told
    assert find_prediction("noisy:3", seed=6).tell(RUNS) != told


def test_the_largest_runs_lie_and_the_others_tell_the_truth() -> None:
    told = find_prediction("liars:0.05:1000").tell(RUNS)
    liars = {run for run, t in told.items() if t != TRUTH[run]}
    assert liars == {f"r{i}" for i in range(380, 400)}
    for run in liars:
        assert told[run].cost == pytest.approx((TRUTH[run].cost or 0.0) / 1000)
        assert told[run].outputs == TRUTH[run].outputs


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("oracle", "unknown prediction 'oracle': choose one of true, mean, none, noisy:FACTOR, liars:SHARE:DIVISOR"),
        ("noisy", "unknown prediction 'noisy'"),
        ("true:2", "unknown prediction 'true:2'"),
        ("noisy:x", "prediction noisy:x: 'x' is not a number"),
        ("noisy:0.5", "prediction noisy:0.5: the factor must be finite and at least 1"),
        ("noisy:nan", "prediction noisy:nan: the factor must be finite"),
        ("noisy:inf", "prediction noisy:inf: the factor must be finite"),
        ("liars:2:10", "prediction liars:2:10: the share must be from 0 to 1"),
        ("liars:0.1:0", "prediction liars:0.1:0: the divisor must be finite and at least 1"),
        ("liars:0.1:inf", "prediction liars:0.1:inf: the divisor must be finite"),
    ],
)
def test_a_bad_prediction_is_refused_with_what_is_wrong(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_prediction(name)
