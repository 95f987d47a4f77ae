from datetime import UTC, datetime, timedelta

import pytest

from justitia_api.status import PlugInStatus
from justitia_sidecar.report.policy_condition import PolicyCondition, find


def plug_in(
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
    ("state", "status", "reason", "said"),
    [
        (plug_in(), "True", "Configured", "configuration 7"),
        (plug_in(generation=8), "False", "Outdated", "the engine's log"),
        (plug_in(failure="ValueError('x')"), "True", "Configured", "configuration 7"),
        (plug_in(generation=6), "False", "Outdated", "the engine's log"),
        (plug_in(generation=-1), "False", "Outdated", "the engine's log"),
        (plug_in(generation=None), "Unknown", "Outdated", "has not said"),
        (plug_in(dismissed=True, failure="ValueError('x')"), "False", "PolicyFailed", "ValueError('x')"),
        (plug_in(dismissed=True, generation=6, failure="e"), "False", "PolicyFailed", "change of the pool's"),
        (plug_in(dismissed=True, failure="e" * 9999), "False", "PolicyFailed", "eee"),
        (plug_in(connected=False), "False", "NotConnected", "--scheduler-cls"),
        (plug_in(connected=False, dismissed=True), "False", "NotConnected", "look into its log"),
        (plug_in(connected=False, generation=None), "False", "NotConnected", "look into its log"),
    ],
)
def test_what_is_found(state: PlugInStatus, status: str, reason: str, said: str) -> None:
    found = find(state, 7)
    assert (found.status, found.reason) == (status, reason)
    assert said in found.message
    assert len(found.message) < 4096


@pytest.mark.parametrize("state", [plug_in(), plug_in(connected=False), plug_in(dismissed=True, failure="e")])
def test_an_engine_that_is_not_supported_is_reported_before_all_else(state: PlugInStatus) -> None:
    found = find(state, 7, "vLLM 99.0 is none of the versions" + "!" * 9999)
    assert (found.status, found.reason) == ("False", "EngineNotSupported")
    assert "vLLM 99.0 is none of the versions" in found.message
    assert len(found.message) < 4096


def test_the_time_of_transition_is_that_of_the_status() -> None:
    start = now = datetime(2030, 1, 1, tzinfo=UTC)
    condition = PolicyCondition(lambda: now)
    reasons = []
    for state in (plug_in(), plug_in(), plug_in(generation=6), plug_in(connected=False), plug_in()):
        now += timedelta(minutes=1)
        seen = condition.observe(state, 7)
        assert (seen.type, seen.observed_generation) == ("PolicyInEffect", 7)
        reasons.append((seen.reason, (seen.last_transition_time - start) // timedelta(minutes=1)))
    assert reasons == [("Configured", 1), ("Configured", 1), ("Outdated", 3), ("NotConnected", 3), ("Configured", 5)]
