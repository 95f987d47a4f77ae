"""Turns verdicts into a status: conditions that keep their transition time, and Events for transitions only."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from justitia_api.conditions import Condition, ConditionType, Reason
from justitia_operator.world.objects import EventType, Json, Kind, Note, Plan, StatusPatch, ref_of
from justitia_operator.world.verdicts import LONGEST_MESSAGE, STATUSES, Refused, Verdict

_MISTAKES = {ConditionType.ACCEPTED, ConditionType.RESOLVED_REFS}
_WARNINGS = {Reason.MISSED, Reason.UNATTAINABLE}


def verdict_of(refused: Refused) -> Verdict:
    return Verdict(refused.condition, False, refused.reason, refused.message)


def accepted(paused: bool) -> Verdict:
    if paused:
        message = "spec.paused is set: what exists stays as it is until it is unset"
        return Verdict(ConditionType.ACCEPTED, True, Reason.PAUSED, message)
    return Verdict(ConditionType.ACCEPTED, True, Reason.ACCEPTED, "the resource is accepted")


def resolved() -> Verdict:
    return Verdict(ConditionType.RESOLVED_REFS, True, Reason.RESOLVED_REFS, "all references are resolved")


_REMEDIES = {
    Kind.LEADER_WORKER_SET: "install LeaderWorkerSet 0.9 or newer (lws.sigs.k8s.io), or set spec.engine.nodes to 1",
    Kind.SCALED_OBJECT: "install KEDA, or set spec.autoscaling.scaler to HPA",
    Kind.INFERENCE_POOL: "install the Gateway API Inference Extension, or remove spec.gateway.endpointPicker",
    Kind.HTTP_ROUTE: "install the Gateway API, or remove spec.gateway",
}


def not_installed(kinds: Iterable[Kind]) -> Verdict:
    """The verdict on kinds that the pool needs and the cluster does not have."""
    told = (f"the cluster has no {kind} ({kind.api_version}): {_REMEDIES[kind]}" for kind in sorted(kinds))
    return Verdict(ConditionType.RESOLVED_REFS, False, Reason.KIND_NOT_INSTALLED, "; ".join(told))


def plan_status(obj: Json, verdicts: Iterable[Verdict], fields: dict[str, Any], now: datetime) -> Plan:
    """Plans to write the status if it differs from the observed one. `fields` are all but the conditions; a field that
    is None is left out.
    """
    generation = obj["metadata"].get("generation", 1)
    observed = obj.get("status") or {}
    before = {condition["type"]: condition for condition in observed.get("conditions") or ()}
    conditions = [_condition(verdict, before.get(verdict.type), generation, now) for verdict in verdicts]
    status = {name: value for name, value in fields.items() if value not in (None, [])}
    status |= {"observedGeneration": generation, "conditions": conditions}
    if status == observed:
        return Plan()
    notes = tuple(_note(obj, c) for c in conditions if _is_transition(before.get(c["type"]), c))
    return Plan(statuses=(StatusPatch(ref_of(obj), status),), events=notes)


def plan_failure(obj: Json, why: str, now: datetime) -> Plan:
    """Adds a condition which says that the operator fails at the resource. The rest of the status stays, and may be out
    of date.
    """
    observed = obj.get("status") or {}
    others = [c for c in observed.get("conditions") or () if c["type"] != ConditionType.RECONCILED]
    before = next((c for c in observed.get("conditions") or () if c["type"] == ConditionType.RECONCILED), None)
    verdict = Verdict(ConditionType.RECONCILED, False, Reason.OPERATOR_FAILED, why)
    condition = _condition(verdict, before, obj["metadata"].get("generation", 1), now)
    if condition == before:
        return Plan()
    note = Note(obj, EventType.WARNING, condition["reason"], condition["message"])
    patch = StatusPatch(ref_of(obj), observed | {"conditions": [*others, condition]})
    return Plan(statuses=(patch,), events=(note,) if before is None else ())


def _condition(verdict: Verdict, before: Json | None, generation: int, now: datetime) -> Json:
    status = STATUSES[verdict.holds]
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    if before is not None and before["status"] == status:
        stamp = before["lastTransitionTime"]
    condition = Condition(
        type=verdict.type,
        status=status,
        reason=verdict.reason,
        message=verdict.message[:LONGEST_MESSAGE],
        observed_generation=generation,
        last_transition_time=datetime.fromisoformat(stamp),
    )
    return condition.model_dump(by_alias=True) | {"lastTransitionTime": stamp}


def _is_transition(before: Json | None, after: Json) -> bool:
    """The first condition of a type is an Event only if it is a mistake: everybody expects a new resource not to be
    ready yet.
    """
    if before is None:
        return after["status"] == "False" and after["type"] in _MISTAKES
    return (before["status"], before["reason"]) != (after["status"], after["reason"])


def _note(obj: Json, condition: Json) -> Note:
    mistake = condition["status"] == "False" and condition["type"] in _MISTAKES
    type_ = EventType.WARNING if mistake or condition["reason"] in _WARNINGS else EventType.NORMAL
    return Note(obj, type_, condition["reason"], f"{condition['type']}={condition['status']}: {condition['message']}")
