"""Which version of a predictor is in effect: pure, one decision at a time, each with its reason.

    trained -> candidate -> compared on live runs -> in effect, or dropped
    in effect -> compared with the running mean -> rolled back

Decisions are kept in the application's status, which is their only record. Errors come from the pods' reports, and
start from zero when a pod does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from justitia_api.conditions import ConditionType, Reason
from justitia_api.learning import PredictorDecision, PredictorSpec, PredictorStatus
from justitia_api.status import ErrorSums, LearningStatus, ModelStatus
from justitia_operator.learning.evidence import added, errs_less, errs_more, percent
from justitia_operator.world.verdicts import LONGEST_MESSAGE, Verdict

NAMED = 12
"""Digits of a version that messages show."""
KEPT_VERSIONS = 5
DRIFT_RUNS = 100
"""The most runs that a rollback waits for: pods look for drift in a window that may not hold more."""
NO_RUNS = ErrorSums()
PATIENCE = 10
"""A candidate that has shown nothing after so many times `minimumRuns` is dropped."""
RETRY = timedelta(hours=1)
"""Time to wait after a failed training."""
RUNNING_MEAN = "running-mean"


@dataclass(frozen=True)
class ObservedVersion:
    """A version as the pods see it. `unusable` says that no pod will ever load it, `problem` why none has. The errors
    are those of all pods.
    """

    unusable: bool = False
    problem: str | None = None
    since_start: ErrorSums = NO_RUNS
    recent: ErrorSums = NO_RUNS


@dataclass(frozen=True)
class Learned:
    """What all pods report of an application. `samples` is None until one pod has looked into the store."""

    samples: int | None
    version: ObservedVersion
    candidate: ObservedVersion


@dataclass(frozen=True)
class Outcome:
    """The result of the training that began then: a version of that kind, or what went wrong."""

    begun: datetime
    samples: int = 0
    version: str | None = None
    kind: str = ""
    problem: str = ""


def learned(reports: Iterable[LearningStatus], status: PredictorStatus) -> Learned:
    """Combines the reports about these versions. A pod may be a configuration behind."""
    reports = list(reports)
    return Learned(
        samples=max((r.samples for r in reports if r.samples is not None), default=None),
        version=_model((r.version for r in reports), status.version),
        candidate=_model((r.candidate for r in reports), status.candidate),
    )


def _model(told: Iterable[ModelStatus | None], version: str | None) -> ObservedVersion:
    models = [m for m in told if m is not None and m.version == version]
    loaded = any(m.loaded for m in models)
    return ObservedVersion(
        unusable=not loaded and any(m.unusable for m in models),
        problem=None if loaded else next((m.problem for m in models if m.problem), None),
        since_start=added(m.since_start for m in models),
        recent=added(m.recent for m in models),
    )


def step(
    policy: PredictorSpec, before: PredictorStatus, seen: Learned, outcome: Outcome | None, now: datetime
) -> PredictorStatus:
    """The record after at most one decision."""
    return _measured(policy, _decided(policy, before, seen, outcome, now) or before, before, seen)


def _decided(
    policy: PredictorSpec, before: PredictorStatus, seen: Learned, outcome: Outcome | None, now: datetime
) -> PredictorStatus | None:
    if policy.version is not None:
        return _pinned(before, policy.version, now)
    if policy.paused:
        return None
    return (
        (None if outcome is None else _trained(policy, before, outcome, now))
        or _rolled_back(policy, before, seen.version, now)
        or _judged(policy, before, seen.candidate, now)
    )


def _pinned(before: PredictorStatus, version: str, now: datetime) -> PredictorStatus | None:
    if before.version == version and before.candidate is None:
        return None
    message = f"version {version[:NAMED]} is in effect, as spec.predictor.version asks"
    return _put_in_effect(before, version, _decision(now, Reason.PINNED, message))


def _trained(policy: PredictorSpec, before: PredictorStatus, outcome: Outcome, now: datetime) -> PredictorStatus | None:
    if before.trained is not None and outcome.begun <= before.trained:
        return None
    after = before.model_copy(update={"trained": outcome.begun, "trained_samples": outcome.samples})

    if outcome.version is None:
        return after.model_copy(update={"last_decision": _decision(now, Reason.TRAINING_FAILED, outcome.problem)})
    name = f"version {outcome.version[:NAMED]} ({outcome.kind}, {outcome.samples} runs)"
    if outcome.version == before.version:
        message = f"training gave {name} again: there is nothing new to learn from"
        return after.model_copy(update={"last_decision": _decision(now, Reason.TRAINED, message)})
    if outcome.kind == RUNNING_MEAN:
        message = f"no model predicts better than the running mean on {outcome.samples} runs, so there is no candidate"
        return after.model_copy(update={"last_decision": _decision(now, Reason.TRAINED, message)})
    if policy.rollout.strategy == "Immediate":
        message = f"{name} is in effect at once, as the strategy Immediate asks"
        return _put_in_effect(after, outcome.version, _decision(now, Reason.PROMOTED, message))
    decision = _decision(now, Reason.TRAINED, f"{name} is the candidate")
    return after.model_copy(update={"candidate": outcome.version, "last_decision": decision})


def _rolled_back(
    policy: PredictorSpec, before: PredictorStatus, model: ObservedVersion, now: datetime
) -> PredictorStatus | None:
    if before.version is None:
        return None
    runs, least = model.recent.runs, min(policy.rollout.minimum_runs, DRIFT_RUNS)
    if model.unusable:
        why = f"it cannot be loaded: {model.problem}"
    elif errs_more(model.recent, policy.rollout.confidence_percent / 100, least):
        errors = f"{percent(model.recent.error, runs)} % against {percent(model.recent.baseline, runs)} %"
        why = f"its error is larger than that of the running mean on the last {runs} runs ({errors})"
    else:
        return None
    earlier = before.history[0] if before.history else None
    instead = "the running mean" if earlier is None else f"version {earlier[:NAMED]}"
    message = f"version {before.version[:NAMED]} was rolled back to {instead}: {why}"
    return before.model_copy(
        update={
            "version": earlier,
            "history": before.history[1:],
            "last_decision": _decision(now, Reason.ROLLED_BACK, message),
        }
    )


def _judged(
    policy: PredictorSpec, before: PredictorStatus, model: ObservedVersion, now: datetime
) -> PredictorStatus | None:
    if before.candidate is None:
        return None
    sums, confidence, least = model.since_start, policy.rollout.confidence_percent / 100, policy.rollout.minimum_runs
    runs, name = sums.runs, f"version {before.candidate[:NAMED]}"
    other = "the running mean" if before.version is None else f"version {before.version[:NAMED]}"
    errors = f"{percent(sums.error, runs)} % against {percent(sums.baseline, runs)} % on {runs} runs"
    if errs_less(sums, confidence, least):
        message = f"{name} has a smaller error than {other}: {errors}"
        return _put_in_effect(before, before.candidate, _decision(now, Reason.PROMOTED, message))
    if model.unusable:
        why = f"cannot be loaded: {model.problem}"
    elif errs_more(sums, confidence, least):
        why = f"has a larger error than {other}: {errors}"
    elif runs >= PATIENCE * least:
        why = f"was not shown to have a smaller error than {other}: {errors}"
    else:
        return None
    decision = _decision(now, Reason.REJECTED, f"{name} {why}")
    return before.model_copy(update={"candidate": None, "last_decision": decision})


def _decision(now: datetime, reason: Reason, message: str) -> PredictorDecision:
    return PredictorDecision(time=now, reason=reason, message=message[:LONGEST_MESSAGE])


def _put_in_effect(before: PredictorStatus, version: str, decision: PredictorDecision) -> PredictorStatus:
    earlier = [v for v in (before.version, *before.history) if v not in (None, version)]
    return before.model_copy(
        update={
            "version": version,
            "candidate": None,
            "history": tuple(earlier[:KEPT_VERSIONS]),
            "last_decision": decision,
        }
    )


def _measured(policy: PredictorSpec, after: PredictorStatus, before: PredictorStatus, seen: Learned) -> PredictorStatus:
    """Updates the figures. They are rounded to two digits, so that not every run is a write."""
    same_version, same_candidate = after.version == before.version, after.candidate == before.candidate
    recent = seen.version.recent if same_version else NO_RUNS
    compared = seen.candidate.since_start if same_candidate else NO_RUNS
    return after.model_copy(
        update={
            "samples": before.samples if seen.samples is None else _rounded(seen.samples),
            "candidate_percent": None if after.candidate is None else policy.rollout.canary_percent,
            "version_error_percent": _rounded(percent(recent.error, recent.runs)),
            "candidate_error_percent": _rounded(percent(compared.error, compared.runs)),
            "compared_error_percent": _rounded(percent(compared.baseline, compared.runs)),
            "compared_runs": None if after.candidate is None else _rounded(compared.runs),
        }
    )


def _rounded(number: int | None) -> int | None:
    """Rounds down to two digits. Numbers below a hundred stay exact."""
    if number is None:
        return None
    unit: int = 10 ** max(len(str(number)) - 2, 0)
    return number // unit * unit


def training_is_due(policy: PredictorSpec, status: PredictorStatus, now: datetime) -> bool:
    """Whether to train a new version, given that none is being trained or compared."""
    if policy.version is not None or policy.paused or status.candidate is not None:
        return False
    if status.samples is None or status.samples < policy.minimum_samples:
        return False
    decision = status.last_decision
    if status.trained is None or decision is None or decision.reason == Reason.ROLLED_BACK:
        return True
    failed = decision.reason == Reason.TRAINING_FAILED
    return now - status.trained >= (RETRY if failed else timedelta(hours=policy.retrain_hours))


def predictor_verdict(policy: PredictorSpec, status: PredictorStatus, seen: Learned, *, training: bool) -> Verdict:
    """The condition PredictorReady."""

    def told(holds: bool, reason: Reason, message: str) -> Verdict:
        return Verdict(ConditionType.PREDICTOR_READY, holds, reason, message)

    if status.version is not None:
        name = f"version {status.version[:NAMED]}"
        if seen.version.problem is not None:
            message = f"{name} is not loaded, so the running mean is used: {seen.version.problem}"
            return told(False, Reason.NOT_LOADED, message)
        return told(True, Reason.PREDICTING, f"{name} predicts the application's runs")
    if status.candidate is not None:
        name, so_far = f"version {status.candidate[:NAMED]}", status.compared_runs or 0
        message = f"{name} is compared with the running mean: {so_far} of at least {policy.rollout.minimum_runs} runs"
        return told(False, Reason.COMPARING, message)
    if training:
        return told(False, Reason.TRAINING, "the first version is being trained")
    decision = status.last_decision
    if decision is not None and decision.reason in {Reason.TRAINING_FAILED, Reason.REJECTED, Reason.ROLLED_BACK}:
        return told(False, Reason(decision.reason), decision.message)
    samples = status.samples or 0
    message = f"{samples} of {policy.minimum_samples} finished runs: the running mean is used until then"
    if samples >= policy.minimum_samples:
        message = "the running mean is used" if decision is None else decision.message
    return told(False, Reason.COLLECTING, message)
