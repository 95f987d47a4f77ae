"""Prints the conditions of the pool that is up as they change."""

import json
import urllib.error
from collections.abc import Callable, Mapping
from typing import Any

from justitia_api.conditions import Reason

Status = Callable[[], dict[str, Any]]


def in_effect(condition: Mapping[str, str]) -> bool:
    """Whether requests are ordered as configured: inside the engine, or in front of one that is not supported."""
    return condition["status"] == "True" or condition["reason"] == Reason.ENGINE_NOT_SUPPORTED.value


class ConditionPrinter:
    """`status` reads the sidecar's status. It may fail while the sidecar does not answer."""

    def __init__(self, status: Status, show: Callable[[str], None]) -> None:
        self._status = status
        self._show = show
        self._shown: dict[str, tuple[str, str]] = {}

    def look(self) -> None:
        """Print what has changed since the last look. A condition that is Unknown is not printed."""
        try:
            conditions = self._status()["conditions"]
        except (OSError, urllib.error.URLError, json.JSONDecodeError):
            return
        for condition in conditions:
            kind, now = condition["type"], (condition["status"], condition["reason"])
            if now[0] != "Unknown" and now != self._shown.get(kind):
                self._shown[kind] = now
                self._show(f"{kind} is {now[0]}, {now[1]}: {condition['message']}")
