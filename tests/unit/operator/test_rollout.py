"""Which version is in effect: each decision, its reason, and what must not move it."""

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from justitia_api.conditions import Reason
from justitia_api.learning import PredictorDecision, PredictorSpec, PredictorStatus, RolloutSpec
from justitia_api.status import ErrorSums, LearningStatus, ModelStatus
from justitia_operator.learning.evidence import errs_less, errs_more
from justitia_operator.learning.rollout import (
    PATIENCE,
    Learned,
    ObservedVersion,
    Outcome,
    learned,
    predictor_verdict,
    step,
    training_is_due,
)
from support.resources import NOW

FIRST, SECOND, THIRD = ("a" * 64, "b" * 64, "c" * 64)
SHADOW = PredictorSpec()
LEAST = SHADOW.rollout.minimum_runs
NOTHING = Learned(None, ObservedVersion(), ObservedVersion())
NOTHING_NEW = PredictorDecision(time=NOW, reason=Reason.TRAINED, message="nothing new")
TRAINED = Outcome(NOW, 120, FIRST, "linear")


def errors(runs: int, gain: float, seed: int = 0) -> ErrorSums:
    """Errors of a model that are smaller by this much on average."""
    draw = np.random.default_rng(seed)
    own, other = draw.gamma(2, 0.2, runs) + max(0.0, -gain), draw.gamma(2, 0.2, runs) + max(0.0, gain)
    return ErrorSums(
        runs=runs,
        error=float(own.sum()),
        baseline=float(other.sum()),
        squared_difference=float(((other - own) ** 2).sum()),
    )


def seen(*, version: ErrorSums | None = None, candidate: ErrorSums | None = None, samples: int = 120) -> Learned:
    return Learned(
        samples,
        ObservedVersion(recent=version or ErrorSums()),
        ObservedVersion(since_start=candidate or ErrorSums()),
    )


def reason(status: PredictorStatus) -> str | None:
    return None if status.last_decision is None else status.last_decision.reason


def message(status: PredictorStatus) -> str:
    assert status.last_decision is not None
    return status.last_decision.message


COMPARED = PredictorStatus(candidate=SECOND, version=FIRST, trained=NOW)
IN_EFFECT = PredictorStatus(version=SECOND, history=(FIRST,), trained=NOW)


def test_a_trained_version_is_compared_before_it_counts() -> None:
    after = step(SHADOW, PredictorStatus(), NOTHING, TRAINED, NOW)
    assert (after.version, after.candidate, after.candidate_percent) == (None, FIRST, 0)
    assert (after.trained, after.trained_samples, reason(after)) == (NOW, 120, Reason.TRAINED)


def test_an_outcome_counts_once() -> None:
    after = step(SHADOW, PredictorStatus(), NOTHING, TRAINED, NOW)
    dropped = after.model_copy(update={"candidate": None})
    assert step(SHADOW, dropped, NOTHING, TRAINED, NOW).candidate is None
    again = replace(TRAINED, begun=NOW + timedelta(seconds=1))
    assert step(SHADOW, dropped, NOTHING, again, NOW).candidate == FIRST


@pytest.mark.parametrize("before", [None, FIRST])
def test_a_candidate_that_is_shown_to_err_less_takes_effect(before: str | None) -> None:
    status = COMPARED.model_copy(update={"version": before})
    after = step(SHADOW, status, seen(candidate=errors(4 * LEAST, 0.6)), None, NOW)
    assert (after.version, after.candidate, reason(after)) == (SECOND, None, Reason.PROMOTED)
    assert after.history == (() if before is None else (before,))


@pytest.mark.parametrize(
    ("sums", "why"),
    [(errors(LEAST - 1, 5.0), None), (errors(4 * LEAST, 0.0), None), (errors(PATIENCE * LEAST, 0.0), "not shown")],
)
def test_a_candidate_waits_for_evidence_and_not_for_ever(sums: ErrorSums, why: str | None) -> None:
    after = step(SHADOW, COMPARED, seen(candidate=sums), None, NOW)
    assert after.version == FIRST
    assert (reason(after) == Reason.REJECTED) is (why is not None)
    assert (after.candidate is None) is (why is not None)


def test_a_poisoned_candidate_is_dropped() -> None:
    after = step(SHADOW, COMPARED, seen(candidate=errors(4 * LEAST, -1.5)), None, NOW)
    assert (after.version, after.candidate, reason(after)) == (FIRST, None, Reason.REJECTED)
    assert "has a larger error than version aaaaaaaaaaaa" in message(after)


@pytest.mark.parametrize(("before", "than"), [(None, "the running mean"), (FIRST, "version aaaaaaaaaaaa")])
def test_a_decision_says_what_it_was_compared_with(before: str | None, than: str) -> None:
    after = step(
        SHADOW, COMPARED.model_copy(update={"version": before}), seen(candidate=errors(4 * LEAST, 0.6)), None, NOW
    )
    assert f"version bbbbbbbbbbbb has a smaller error than {than}: " in message(after)


def test_confidence_is_in_percent() -> None:
    for gain in np.linspace(-0.5, 0.5, 1001):
        sums = errors(100, gain)
        rolled_back = step(SHADOW, IN_EFFECT, seen(version=sums), None, NOW).version != IN_EFFECT.version
        promoted = step(SHADOW, COMPARED, seen(candidate=sums), None, NOW).version == COMPARED.candidate
        assert (rolled_back, promoted) == (errs_more(sums, 0.95, LEAST), errs_less(sums, 0.95, LEAST)), gain


def test_a_version_that_drifts_gives_way_to_the_one_before_and_a_training_is_due() -> None:
    after = step(SHADOW, IN_EFFECT, seen(version=errors(100, -0.8)), None, NOW)
    assert (after.version, after.history, reason(after)) == (FIRST, (), Reason.ROLLED_BACK)
    assert training_is_due(SHADOW, after, NOW)
    assert "version bbbbbbbbbbbb was rolled back to version aaaaaaaaaaaa: " in message(after)
    last = step(SHADOW, after, seen(version=errors(100, -0.8)), None, NOW)
    assert (last.version, reason(last)) == (None, Reason.ROLLED_BACK)
    assert "version aaaaaaaaaaaa was rolled back to the running mean: " in message(last)


def test_versions_are_rolled_back_one_by_one() -> None:
    status = PredictorStatus(version=THIRD, history=(SECOND, FIRST), trained=NOW)
    after = step(SHADOW, status, seen(version=errors(100, -0.8)), None, NOW)
    assert (after.version, after.history) == (SECOND, (FIRST,))


def test_a_version_that_does_not_err_more_stays() -> None:
    for gain in (0.5, 0.0):
        assert step(SHADOW, IN_EFFECT, seen(version=errors(100, gain)), None, NOW).version == SECOND


def test_the_training_before_a_rollback_is_not_taken_for_a_new_one() -> None:
    after = step(SHADOW, IN_EFFECT, seen(version=errors(100, -0.8)), None, NOW)
    assert step(SHADOW, after, NOTHING, replace(TRAINED, version=SECOND), NOW).candidate is None


def test_what_cannot_be_loaded_gives_way_but_not_what_is_not_loaded_yet() -> None:
    away = Learned(10, ObservedVersion(problem="the store does not answer"), ObservedVersion())
    assert step(SHADOW, IN_EFFECT, away, None, NOW).version == SECOND
    verdict = predictor_verdict(SHADOW, IN_EFFECT, away, training=False)
    assert (verdict.holds, verdict.reason) == (False, Reason.NOT_LOADED)
    damaged = Learned(10, ObservedVersion(unusable=True, problem="it is damaged"), ObservedVersion())
    assert step(SHADOW, IN_EFFECT, damaged, None, NOW).version == FIRST
    assert step(SHADOW, COMPARED, Learned(10, ObservedVersion(), damaged.version), None, NOW).candidate is None


def test_immediate_takes_effect_at_once() -> None:
    policy = PredictorSpec(rollout=RolloutSpec(strategy="Immediate"))
    after = step(policy, PredictorStatus(version=SECOND), NOTHING, TRAINED, NOW)
    assert (after.version, after.candidate, after.history, reason(after)) == (FIRST, None, (SECOND,), Reason.PROMOTED)


def test_a_canary_has_its_share() -> None:
    policy = PredictorSpec(rollout=RolloutSpec(strategy="Canary", percent=25))
    assert step(policy, PredictorStatus(), NOTHING, TRAINED, NOW).candidate_percent == 25
    assert PredictorSpec(rollout=RolloutSpec(strategy="Canary")).rollout.canary_percent == 10


@pytest.mark.parametrize("status", [COMPARED, IN_EFFECT])
def test_what_is_paused_stands_still(status: PredictorStatus) -> None:
    policy = PredictorSpec(paused=True)
    after = step(policy, status, seen(version=errors(100, -1.0), candidate=errors(300, 1.0)), TRAINED, NOW)
    assert (after.version, after.candidate) == (status.version, status.candidate)
    assert not training_is_due(policy, PredictorStatus(samples=2000), NOW)


def test_a_version_by_hand_is_in_effect_and_stays() -> None:
    policy = PredictorSpec(version=THIRD)
    after = step(policy, COMPARED, NOTHING, None, NOW)
    assert (after.version, after.candidate, after.history) == (THIRD, None, (FIRST,))
    assert step(policy, after, seen(version=errors(100, -1.0)), TRAINED, NOW).version == THIRD
    later = step(policy, after, NOTHING, None, NOW + timedelta(hours=1))
    assert later.last_decision == after.last_decision, "it is decided once"
    assert not training_is_due(policy, after, NOW + timedelta(days=30))


def test_the_version_in_effect_asked_for_by_hand_ends_the_comparison() -> None:
    after = step(PredictorSpec(version=FIRST), COMPARED, NOTHING, None, NOW)
    assert (after.version, after.candidate, after.history, reason(after)) == (FIRST, None, (), Reason.PINNED)
    assert after.candidate_percent is None, "no run is predicted by it any more"


def test_nothing_new_is_no_candidate() -> None:
    same = step(SHADOW, PredictorStatus(version=FIRST), NOTHING, TRAINED, NOW)
    assert (same.candidate, same.version, reason(same)) == (None, FIRST, Reason.TRAINED)
    assert "there is nothing new to learn from" in message(same)
    mean = step(SHADOW, PredictorStatus(), NOTHING, replace(TRAINED, kind="running-mean"), NOW)
    assert (mean.candidate, reason(mean)) == (None, Reason.TRAINED)
    assert "no model predicts better than the running mean on 120 runs" in message(mean)


def test_a_failed_training_is_tried_again_after_an_hour_and_a_good_one_after_a_day() -> None:
    failed = step(SHADOW, PredictorStatus(), seen(), Outcome(NOW, problem="no space"), NOW)
    assert (reason(failed), failed.trained) == (Reason.TRAINING_FAILED, NOW)
    for status, wait in ((failed, timedelta(hours=1)), (IN_EFFECT, timedelta(hours=24))):
        known = status.model_copy(update={"samples": 120, "last_decision": failed.last_decision})
        if status is IN_EFFECT:
            known = known.model_copy(
                update={"last_decision": step(SHADOW, PredictorStatus(), NOTHING, TRAINED, NOW).last_decision}
            )
        assert not training_is_due(SHADOW, known, NOW + wait - timedelta(seconds=1))
        assert training_is_due(SHADOW, known, NOW + wait)


def test_a_training_waits_for_samples_and_for_the_comparison() -> None:
    assert not training_is_due(SHADOW, PredictorStatus(samples=99), NOW)
    assert training_is_due(SHADOW, PredictorStatus(samples=100), NOW)
    assert not training_is_due(SHADOW, PredictorStatus(samples=100, candidate=FIRST), NOW)


def test_pods_count_for_the_versions_that_are_meant() -> None:
    def pod(version: str, runs: int, samples: int | None) -> LearningStatus:
        sums = errors(runs, 0.1)
        model = ModelStatus(version=version, loaded=True, since_start=sums, recent=sums)
        return LearningStatus(namespace="apps", name="chat", samples=samples, version=model)

    together = learned([pod(FIRST, 10, 50), pod(FIRST, 5, None), pod(SECOND, 99, 70)], PredictorStatus(version=FIRST))
    assert (together.samples, together.version.recent.runs, together.candidate.since_start.runs) == (70, 15, 0)


@pytest.mark.parametrize("loads_first", [True, False])
def test_a_version_that_one_pod_has_loaded_is_usable(loads_first: bool) -> None:
    def pod(*, loaded: bool) -> LearningStatus:
        model = ModelStatus(version=FIRST, loaded=loaded, unusable=not loaded, problem=None if loaded else "damaged")
        return LearningStatus(namespace="apps", name="chat", version=model, candidate=model)

    status = PredictorStatus(version=FIRST, candidate=FIRST)
    nowhere = learned([pod(loaded=False), pod(loaded=False)], status)
    assert (nowhere.version.unusable, nowhere.version.problem) == (True, "damaged")
    somewhere = learned([pod(loaded=loads_first), pod(loaded=not loads_first)], status)
    assert (somewhere.version.unusable, somewhere.version.problem) == (False, None)


def test_figures_are_of_the_versions_that_are_recorded_and_do_not_change_with_every_run() -> None:
    status = step(SHADOW, COMPARED, seen(candidate=errors(200, 0.0), samples=1234), None, NOW)
    assert (status.samples, status.compared_runs) == (1200, 200)
    assert status == step(SHADOW, COMPARED, seen(candidate=errors(200, 0.0), samples=1299), None, NOW)
    promoted = step(SHADOW, COMPARED, seen(version=errors(20, 0.0), candidate=errors(200, 0.6)), None, NOW)
    assert promoted.version_error_percent is None, "its errors in effect are not known yet"
    assert promoted.candidate_error_percent is promoted.compared_runs is None


@pytest.mark.parametrize(("samples", "shown"), [(0, 0), (7, 7), (79, 79), (100, 100), (109, 100), (98_765, 98_000)])
def test_a_figure_has_its_first_two_digits(samples: int, shown: int) -> None:
    assert step(SHADOW, PredictorStatus(), seen(samples=samples), None, NOW).samples == shown


def test_errors_are_factors_in_percent() -> None:
    sums = ErrorSums(runs=20, error=20 * math.log(1.5), baseline=20 * math.log(2), squared_difference=20 * 0.5)
    status = step(SHADOW, COMPARED, seen(candidate=sums), None, NOW)
    assert (status.candidate_error_percent, status.compared_error_percent) == (50, 100)
    assert step(SHADOW, IN_EFFECT, seen(version=sums), None, NOW).version_error_percent == 50


def test_figures_that_no_pod_tells_stay_as_they_were() -> None:
    assert step(SHADOW, PredictorStatus(samples=70), NOTHING, None, NOW).samples == 70


@pytest.mark.parametrize(
    ("status", "training", "expected"),
    [
        (PredictorStatus(samples=40), False, (False, Reason.COLLECTING)),
        (PredictorStatus(samples=400), True, (False, Reason.TRAINING)),
        (PredictorStatus(candidate=FIRST), False, (False, Reason.COMPARING)),
        (IN_EFFECT, True, (True, Reason.PREDICTING)),
        (COMPARED, False, (True, Reason.PREDICTING)),
    ],
)
def test_the_condition_tells_how_far_it_is(
    status: PredictorStatus, training: bool, expected: tuple[bool, Reason]
) -> None:
    verdict = predictor_verdict(SHADOW, status, seen(version=ErrorSums()), training=training)
    assert (verdict.holds, verdict.reason) == expected


@pytest.mark.parametrize("why", [Reason.TRAINING_FAILED, Reason.REJECTED, Reason.ROLLED_BACK])
def test_a_decision_against_a_version_is_the_reason_why_none_predicts(why: Reason) -> None:
    decided = PredictorDecision(time=NOW, reason=why, message="what happened")
    verdict = predictor_verdict(SHADOW, PredictorStatus(samples=400, last_decision=decided), NOTHING, training=False)
    assert (verdict.holds, verdict.reason, verdict.message) == (False, why, "what happened")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (PredictorStatus(), "0 of 100 finished runs"),
        (PredictorStatus(samples=100), "the running mean is used"),
        (PredictorStatus(samples=100, last_decision=NOTHING_NEW), "nothing new"),
        (PredictorStatus(candidate=FIRST), "0 of at least 30 runs"),
        (PredictorStatus(candidate=FIRST, compared_runs=20), "20 of at least 30 runs"),
    ],
    ids=["no runs yet", "enough runs", "trained in vain", "a comparison begins", "a comparison goes on"],
)
def test_the_condition_says_what_is_waited_for(status: PredictorStatus, expected: str) -> None:
    assert expected in predictor_verdict(SHADOW, status, NOTHING, training=False).message
