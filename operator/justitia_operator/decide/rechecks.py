"""When a pod that was told something is asked again: its engine takes a configuration a moment after its scheduler,
and until the next round of questions the conditions would contradict each other.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from justitia_api.conditions import Reason
from justitia_operator.world.objects import Push, Ref
from justitia_operator.world.reports import Report

FIRST = timedelta(seconds=0.5)
LONGEST = timedelta(seconds=8)
"""Pods that are not at one by then wait for the round in which all are asked."""


@dataclass(frozen=True)
class _Waiting:
    push: Push
    delay: timedelta
    due: datetime


class Rechecks:
    """Of pods whose engine does not order yet by what they were told: soon, then after twice the time."""

    def __init__(self) -> None:
        self._waiting: dict[Ref, _Waiting] = {}

    def told(self, push: Push, report: Report, now: datetime) -> None:
        """A pod answered when it was told something."""
        self._wait(replace(push, documents=b""), FIRST, report, now)

    def asked(self, push: Push, report: Report, now: datetime) -> None:
        """A pod answered when it was asked, whoever had it asked."""
        if (before := self._waiting.get(push.pod)) is not None:
            self._wait(before.push, 2 * before.delay, report, now)

    def due(self, now: datetime) -> list[Push]:
        """Whom to ask now."""
        return [each.push for each in self._waiting.values() if each.due <= now]

    def _wait(self, push: Push, delay: timedelta, report: Report, now: datetime) -> None:
        behind = report.policy is not None and report.policy.reason == Reason.OUTDATED
        if behind and delay <= LONGEST:
            self._waiting[push.pod] = _Waiting(push, delay, now + delay)
        else:
            self._waiting.pop(push.pod, None)
