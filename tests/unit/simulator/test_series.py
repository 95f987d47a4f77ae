"""Time series for the report, by hand."""

import pytest

from justitia_simulator.records import PolicyResults, RequestResult, ServiceSample
from justitia_simulator.series import lightest_tenant, sampled, service_series, waiting_series


def request(tenant: str, ready: float, first: float | None, finished: float | None, tokens: int = 10) -> RequestResult:
    return RequestResult(
        "p", f"{tenant}{ready}", tenant, "a", 0, ready, ready, None, first, finished, tokens, tokens, 0, "finished"
    )


def test_service_from_tokens_starts_with_the_prompt_and_grows_evenly_to_prompt_plus_twice_the_output() -> None:
    unit, series = service_series(PolicyResults("p", [request("t", 0.0, 100.0, 200.0)], [], weights={"t": 2.0}))
    values = dict(zip(series["t"].times.round(3), series["t"].values, strict=True))
    assert unit == "weighted tokens"
    assert values[0.0] == 0.0
    assert series["t"].values[-1] == pytest.approx(30 / 2)
    halfway = min(values, key=lambda t: abs(t - 150.0))
    assert values[halfway] == pytest.approx((10 + 2 * 5) / 2, abs=0.1)


def test_recorded_charges_win_over_tokens() -> None:
    samples = [ServiceSample("p", float(i), "t", 3.0 * i, i, 1) for i in range(3)]
    results = PolicyResults("p", [request("t", 0.0, 1.0, 2.0)], [], samples, {"t": 3.0}, "engine seconds")
    unit, series = service_series(results)
    assert (unit, series["t"].values.tolist()) == ("engine seconds", [0.0, 1.0, 2.0])
    assert sampled(results, "queued")["t"].values.tolist() == [0.0, 1.0, 2.0]


def test_the_light_tenant_is_the_one_that_asks_least_and_waits_from_ready_to_first_token() -> None:
    requests = [request("big", 0.0, 1.0, 2.0, 100), request("small", 5.0, 5.5, 6.0), request("small", 4.0, None, None)]
    results = PolicyResults("p", requests, [])
    assert lightest_tenant(results) == "small"
    series = waiting_series(results, "small")
    assert (series.times.tolist(), series.values.tolist()) == ([5.0], [0.5])
