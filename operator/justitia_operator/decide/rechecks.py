"""When to ask a pod again after it was sent a configuration.

The engine applies a configuration a moment after its sidecar. Until the next round of questions the two conditions
would contradict each other.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from justitia_api.conditions import Reason
from justitia_operator.world.objects import Push, Ref
from justitia_operator.world.reports import Report

FIRST = timedelta(seconds=0.5)
LONGEST = timedelta(seconds=8)
"""Pods whose engine is still behind after that wait for the round in which all pods are asked."""


@dataclass(frozen=True)
class _Waiting:
    push: Push
    delay: timedelta
    due: datetime


class Rechecks:
    """Pods whose engine does not order by the latest configuration yet. Each is asked soon, then at twice the delay."""

    def __init__(self) -> None:
        self._waiting: dict[Ref, _Waiting] = {}

    def told(self, push: Push, report: Report, now: datetime) -> None:
        """Notes the answer of a pod to the documents that it was sent."""
        self._wait(replace(push, documents=b""), FIRST, report, now)

    def asked(self, push: Push, report: Report, now: datetime) -> None:
        """Notes the answer of a pod that was asked, for whatever reason."""
        if (before := self._waiting.get(push.pod)) is not None:
            self._wait(before.push, 2 * before.delay, report, now)

    def due(self, now: datetime) -> list[Push]:
        """Returns the pods to ask now."""
        return [each.push for each in self._waiting.values() if each.due <= now]

    def _wait(self, push: Push, delay: timedelta, report: Report, now: datetime) -> None:
        behind = report.policy is not None and report.policy.reason == Reason.OUTDATED
        if behind and delay <= LONGEST:
            self._waiting[push.pod] = _Waiting(push, delay, now + delay)
        else:
            self._waiting.pop(push.pod, None)
