"""Conditions of the pool that is up, told as they change."""

import json
import urllib.error
from collections.abc import Callable, Mapping
from typing import Any

from justitia_api.conditions import Reason

Status = Callable[[], dict[str, Any]]


def in_effect(condition: Mapping[str, str]) -> bool:
    """Whether requests are ordered as configured: in front of the engine where the engine cannot."""
    return condition["status"] == "True" or condition["reason"] == Reason.ENGINE_NOT_SUPPORTED.value


class ConditionTeller:
    """`status` is the sidecar's; it may fail while the sidecar does not answer."""

    def __init__(self, status: Status, tell: Callable[[str], None]) -> None:
        self._status = status
        self._tell = tell
        self._told: dict[str, tuple[str, str]] = {}

    def look(self) -> None:
        """Tell what has changed since the last look. What is not known yet is not told."""
        try:
            conditions = self._status()["conditions"]
        except (OSError, urllib.error.URLError, json.JSONDecodeError):
            return
        for condition in conditions:
            kind, now = condition["type"], (condition["status"], condition["reason"])
            if now[0] != "Unknown" and now != self._told.get(kind):
                self._told[kind] = now
                self._tell(f"{kind} is {now[0]}, {now[1]}: {condition['message']}")
