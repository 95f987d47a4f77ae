from datetime import UTC, datetime, timedelta

import pytest

from justitia_api.status import PlugInStatus
from justitia_sidecar.report.policy_condition import PolicyCondition, find


def scheduler(
    connected: bool = True, generation: int | None = 7, dismissed: bool = False, failure: str | None = None
) -> PlugInStatus:
    return PlugInStatus(
        connected=connected,
        vllm="1.2",
        generation=generation,
        dismissed=dismissed,
        failures=int(failure is not None),
        last_failure=failure,
    )


@pytest.mark.parametrize(
    ("told", "status", "reason", "said"),
    [
        (scheduler(), "True", "Configured", "configuration 7"),
        (scheduler(generation=8), "False", "Outdated", "the engine's log"),
        (scheduler(failure="ValueError('x')"), "True", "Configured", "configuration 7"),
        (scheduler(generation=6), "False", "Outdated", "the engine's log"),
        (scheduler(generation=-1), "False", "Outdated", "the engine's log"),
        (scheduler(generation=None), "Unknown", "Outdated", "has not said"),
        (scheduler(dismissed=True, failure="ValueError('x')"), "False", "PolicyFailed", "ValueError('x')"),
        (scheduler(dismissed=True, generation=6, failure="e"), "False", "PolicyFailed", "change of the pool's"),
        (scheduler(dismissed=True, failure="e" * 9999), "False", "PolicyFailed", "eee"),
        (scheduler(connected=False), "False", "NotConnected", "--scheduler-cls"),
        (scheduler(connected=False, dismissed=True), "False", "NotConnected", "look into its log"),
        (scheduler(connected=False, generation=None), "False", "NotConnected", "look into its log"),
    ],
)
def test_what_is_found(told: PlugInStatus, status: str, reason: str, said: str) -> None:
    found = find(told, 7)
    assert (found.status, found.reason) == (status, reason)
    assert said in found.message
    assert len(found.message) < 4096


@pytest.mark.parametrize("told", [scheduler(), scheduler(connected=False), scheduler(dismissed=True, failure="e")])
def test_an_engine_that_is_not_supported_is_said_before_all_else(told: PlugInStatus) -> None:
    found = find(told, 7, "vLLM 99.0 is none of the versions" + "!" * 9999)
    assert (found.status, found.reason) == ("False", "EngineNotSupported")
    assert "vLLM 99.0 is none of the versions" in found.message
    assert len(found.message) < 4096


def test_the_time_of_transition_is_that_of_the_status() -> None:
    start = now = datetime(2030, 1, 1, tzinfo=UTC)
    condition = PolicyCondition(lambda: now)
    reasons = []
    for told in (scheduler(), scheduler(), scheduler(generation=6), scheduler(connected=False), scheduler()):
        now += timedelta(minutes=1)
        seen = condition.observe(told, 7)
        assert (seen.type, seen.observed_generation) == ("PolicyInForce", 7)
        reasons.append((seen.reason, (seen.last_transition_time - start) // timedelta(minutes=1)))
    assert reasons == [("Configured", 1), ("Configured", 1), ("Outdated", 3), ("NotConnected", 3), ("Configured", 5)]
