from typing import Any

import pytest

from justitia_cli.local.conditions import ConditionPrinter, in_effect


def condition(status: str, reason: str, kind: str = "PolicyInEffect") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, "reason": reason, "message": f"because {reason}"}]}


def test_a_change_is_told_once_and_what_is_not_known_is_not() -> None:
    statuses: list[dict[str, Any] | Exception] = [
        {"conditions": []},
        condition("Unknown", "Outdated"),
        condition("True", "Configured"),
        condition("True", "Configured"),
        ConnectionRefusedError(),
        condition("False", "PolicyFailed"),
        condition("Unknown", "Outdated"),
        condition("False", "PolicyFailed"),
        condition("True", "Configured"),
    ]
    remaining = iter(statuses)

    def status() -> dict[str, Any]:
        answer = next(remaining)
        if isinstance(answer, Exception):
            raise answer
        return answer

    told: list[str] = []
    teller = ConditionPrinter(status, told.append)
    for _ in statuses:
        teller.look()
    assert told == [
        "PolicyInEffect is True, Configured: because Configured",
        "PolicyInEffect is False, PolicyFailed: because PolicyFailed",
        "PolicyInEffect is True, Configured: because Configured",
    ]


@pytest.mark.parametrize(
    ("status", "reason", "ordered"),
    [
        ("True", "Configured", True),
        ("False", "EngineNotSupported", True),
        ("False", "NotConnected", False),
        ("False", "Outdated", False),
        ("Unknown", "Outdated", False),
        ("False", "PolicyFailed", False),
    ],
)
def test_requests_are_ordered_as_configured_in_the_engine_or_in_front_of_it(
    status: str, reason: str, ordered: bool
) -> None:
    assert in_effect({"status": status, "reason": reason}) is ordered
