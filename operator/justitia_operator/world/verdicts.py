"""The content of a condition, before it becomes one."""

from dataclasses import dataclass
from typing import Literal

from justitia_api.conditions import Condition, ConditionType, Reason
from justitia_operator.world.objects import Json

LONGEST_MESSAGE = 1024

Holds = Literal["True", "False", "Unknown"]
STATUSES: dict[bool | None, Holds] = {True: "True", False: "False", None: "Unknown"}
_HOLDS = {status: holds for holds, status in STATUSES.items()}


@dataclass(frozen=True)
class Verdict:
    """The content of a condition. `holds` is None if it is not known."""

    type: ConditionType
    holds: bool | None
    reason: Reason
    message: str


@dataclass(frozen=True)
class Refused:
    """A user's mistake, as the condition that shows it."""

    condition: ConditionType
    reason: Reason
    message: str


def recorded_verdict(obj: Json, type_: ConditionType) -> Verdict | None:
    """Reads a condition from the status. None if the status does not have it for this spec, or somebody damaged it."""
    status = obj.get("status") or {}
    if status.get("observedGeneration") != obj["metadata"].get("generation", 1):
        return None
    found = next((each for each in status.get("conditions") or () if each["type"] == type_), None)
    try:
        condition = Condition.model_validate(found)
        return Verdict(type_, _HOLDS[condition.status], Reason(condition.reason), condition.message)
    except ValueError:
        return None
