"""Plans for an application's predictor: a Job that trains it, and the record in the status."""

from dataclasses import dataclass, field
from datetime import datetime

from justitia_api.application import LLMApplication
from justitia_api.conditions import ConditionType, Reason
from justitia_api.learning import PredictorStatus
from justitia_api.pool import ServingPool
from justitia_operator.learning.learned import recorded
from justitia_operator.learning.rollout import Learned, Outcome, learned, predictor_verdict, step, training_is_due
from justitia_operator.learning.training import Unfinished, build_training, outcome_of, training_ref
from justitia_operator.world.names import pool_ref
from justitia_operator.world.objects import EventType, Json, Note, Plan
from justitia_operator.world.sidecars import present_reports
from justitia_operator.world.snapshot import Snapshot
from justitia_operator.world.verdicts import Verdict

_WARNINGS = {Reason.TRAINING_FAILED, Reason.ROLLED_BACK}


@dataclass(frozen=True)
class PredictorPlan:
    """Writes, record and condition for a predictor. Empty for an application without one."""

    plan: Plan = field(default_factory=Plan)
    record: Json | None = None
    verdict: Verdict | None = None


def plan_predictor(
    world: Snapshot, application: LLMApplication, pool: ServingPool, obj: Json, now: datetime
) -> PredictorPlan:
    """Plans the next step. `now` is truncated to whole seconds, as in statuses."""
    policy = application.spec.predictor
    if policy is None:
        return PredictorPlan()
    before = recorded(obj)
    if pool.spec.learning is None:
        message = f"ServingPool {pool.metadata.name} has no learning.store: set it, or remove the predictor"
        return PredictorPlan(
            Plan(), _written(before), Verdict(ConditionType.PREDICTOR_READY, False, Reason.NO_STORE, message)
        )
    seen = _learned(world, application, pool, before)
    if application.spec.paused:
        return PredictorPlan(Plan(), _written(before), predictor_verdict(policy, before, seen, training=False))
    outcome = outcome_of(world, application)
    ended = outcome if isinstance(outcome, Outcome) else None
    after = step(policy, before, seen, ended, now.replace(microsecond=0))
    due = training_is_due(policy, after, now)
    if due and ended is not None:
        plan, refused = Plan(deletes=(training_ref(application),)), None
    elif due and outcome is None:
        plan, refused = _begin(world, build_training(application, pool, pool.spec.learning.store, world.installation))
    else:
        plan, refused = Plan(), None
    training = outcome is Unfinished.RUNNING or bool(plan.applies)
    verdict = refused or predictor_verdict(policy, after, seen, training=training)
    return PredictorPlan(plan + _told(obj, before, after), _written(after), verdict)


def _begin(world: Snapshot, job: Json) -> tuple[Plan, Verdict | None]:
    """Applies the Job, unless the API server has refused it."""
    rejected = world.rejection(job)
    if rejected is None or rejected.retry:
        return Plan(applies=(job,)), None
    message = f"the API server refuses the training Job: {rejected.message}"
    return Plan(), Verdict(ConditionType.PREDICTOR_READY, False, Reason.TRAINING_FAILED, message)


def _learned(world: Snapshot, application: LLMApplication, pool: ServingPool, record: PredictorStatus) -> Learned:
    here = (application.metadata.namespace, application.metadata.name)
    reports = [report for _, report in present_reports(world, pool_ref(pool)) if report is not None]
    return learned([report.learning[here] for report in reports if here in report.learning], record)


def _written(record: PredictorStatus) -> Json | None:
    return record.model_dump(by_alias=True, mode="json", exclude_none=True, exclude_defaults=True) or None


def _told(obj: Json, before: PredictorStatus, after: PredictorStatus) -> Plan:
    """Records an Event for each decision."""
    decision = after.last_decision
    if decision is None or decision == before.last_decision:
        return Plan()
    type_ = EventType.WARNING if decision.reason in _WARNINGS else EventType.NORMAL
    return Plan(events=(Note(obj, type_, decision.reason, decision.message),))
