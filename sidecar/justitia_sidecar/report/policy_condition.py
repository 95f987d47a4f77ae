"""The condition `PolicyInForce`: whether the engine orders by the configuration that the sidecar has.

Decided from what the engine's scheduler has told; readiness does not depend on it, because an engine without its policy
serves on, in the order of arrival.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import structlog

from justitia_api.conditions import Condition, ConditionType, Reason
from justitia_api.status import EngineSchedulerStatus

LONGEST_ERROR = 500

log = structlog.get_logger("justitia.sidecar")


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str


def find(scheduler: EngineSchedulerStatus, generation: int, unsupported: str | None = None) -> PolicyFinding:
    """`generation` is that of the sidecar's configuration; `unsupported` is why the engine keeps no order."""
    if unsupported is not None:
        return PolicyFinding(
            "False",
            Reason.ENGINE_NOT_SUPPORTED,
            f"The engine's own scheduler serves, and requests are ordered in front of it, as with enforcement Sidecar: "
            f"{unsupported[:LONGEST_ERROR]}. There, UniBoost, SRPT and SJF are first come, first served, and requests "
            "for several answers are refused. Use an image whose vLLM is supported.",
        )
    if not scheduler.connected:
        return PolicyFinding(
            "False",
            Reason.NOT_CONNECTED,
            "The scheduler inside the engine is not connected: requests come to it without tickets, and all have one "
            "weight. If the engine runs, look into its log for the scheduler's socket, and check that the engine was "
            "started with its --scheduler-cls and shares the socket's folder with the sidecar.",
        )
    if scheduler.dismissed:
        return PolicyFinding(
            "False",
            Reason.POLICY_FAILED,
            f"The policy has failed and requests are served in the order of arrival: "
            f"{(scheduler.last_failure or '')[:LONGEST_ERROR]}. A change of the pool's configuration starts a policy "
            "again: choose another one, and report the error.",
        )
    if scheduler.generation is None:
        return PolicyFinding(
            "Unknown",
            Reason.OUTDATED,
            f"The engine has not said yet by which configuration it orders; {generation} is to be in force.",
        )
    if scheduler.generation != generation:
        return PolicyFinding(
            "False",
            Reason.OUTDATED,
            f"The engine does not order by configuration {generation} yet. If it stays so while requests are served, "
            "its log says why it refuses the configuration.",
        )
    return PolicyFinding("True", Reason.CONFIGURED, f"The engine orders by configuration {scheduler.generation}.")


class PolicyCondition:
    """Remembers since when the condition has its status, and logs its changes. `clock` tells the time of day."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._found: PolicyFinding | None = None
        self._since = clock()

    def observe(self, scheduler: EngineSchedulerStatus, generation: int, unsupported: str | None = None) -> Condition:
        found, before = find(scheduler, generation, unsupported), self._found
        if before is None or found.status != before.status:
            self._since = self._clock()
        if before is None or (found.status, found.reason) != (before.status, before.reason):
            tell = log.info if found.status != "False" else log.warning
            tell("policy in force", status=found.status, reason=found.reason.value, message=found.message)
        self._found = found
        return Condition(
            type=ConditionType.POLICY_IN_FORCE.value,
            status=found.status,
            reason=found.reason.value,
            message=found.message,
            observed_generation=generation,
            last_transition_time=self._since,
        )
