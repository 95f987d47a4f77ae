"""Decides the condition `PolicyInEffect`: whether the engine orders by the sidecar's configuration.

It follows from what the plug-in last reported. Readiness does not depend on it, because an engine without its policy
still serves, in the order of arrival.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import structlog

from justitia_api.conditions import Condition, ConditionType, Reason
from justitia_api.status import PlugInStatus

LONGEST_ERROR = 500

log = structlog.get_logger("justitia.sidecar")


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str


def find(plug_in: PlugInStatus, generation: int, unsupported: str | None = None) -> PolicyFinding:
    """The state of the condition. `generation` is that of the sidecar's configuration; `unsupported` is why the plug-in
    does not keep the order, if it does not.
    """
    if unsupported is not None:
        return PolicyFinding(
            "False",
            Reason.ENGINE_NOT_SUPPORTED,
            "The plug-in does not support the engine's vLLM. Requests are ordered in front of it, as with enforcement "
            f"Sidecar: {unsupported[:LONGEST_ERROR]}. UniBoost, SRPT and SJF are first come, first served there, and "
            "requests for several answers are refused. Use an image whose vLLM is supported.",
        )
    if not plug_in.connected:
        return PolicyFinding(
            "False",
            Reason.NOT_CONNECTED,
            "The plug-in inside the engine is not connected: requests come to it without tickets, and all have one "
            "weight. If the engine runs, look into its log for the plug-in's socket, and check that the engine was "
            "started with our --scheduler-cls and shares the socket's folder with the sidecar.",
        )
    if plug_in.dismissed:
        return PolicyFinding(
            "False",
            Reason.POLICY_FAILED,
            f"The policy failed, and requests are served in the order of arrival: "
            f"{(plug_in.last_failure or '')[:LONGEST_ERROR]}. Choose another policy, and "
            "report the error: a change of the pool's configuration starts a policy again.",
        )
    if plug_in.generation is None:
        return PolicyFinding(
            "Unknown",
            Reason.OUTDATED,
            f"The engine has not said yet by which configuration it orders: configuration {generation} is meant.",
        )
    if plug_in.generation != generation:
        return PolicyFinding(
            "False",
            Reason.OUTDATED,
            f"The engine does not order by configuration {generation} yet. If that lasts while requests are served, "
            "the engine's log says why the plug-in refuses the configuration.",
        )
    return PolicyFinding("True", Reason.CONFIGURED, f"The engine orders by configuration {plug_in.generation}.")


class PolicyCondition:
    """Remembers since when the condition has its status, and logs its changes. `clock` returns the time of day."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._found: PolicyFinding | None = None
        self._since = clock()

    def observe(self, plug_in: PlugInStatus, generation: int, unsupported: str | None = None) -> Condition:
        found, before = find(plug_in, generation, unsupported), self._found
        if before is None or found.status != before.status:
            self._since = self._clock()
        if before is None or (found.status, found.reason) != (before.status, before.reason):
            write = log.info if found.status != "False" else log.warning
            write("condition PolicyInEffect", status=found.status, reason=found.reason.value, message=found.message)
        self._found = found
        return Condition(
            type=ConditionType.POLICY_IN_EFFECT.value,
            status=found.status,
            reason=found.reason.value,
            message=found.message,
            observed_generation=generation,
            last_transition_time=self._since,
        )
