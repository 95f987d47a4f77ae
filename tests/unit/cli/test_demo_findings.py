"""What the demo concludes from its measurements."""

from dataclasses import replace

import pytest

from justitia_cli.demo.findings import backlog, find, share_bound
from justitia_simulator.records import FINISHED, PolicyResults, RequestResult, RunResult, ServiceSample


def sample(time: float, tenant: str, service: float, queued: int) -> ServiceSample:
    return ServiceSample("p", time, tenant, service, queued, 1)


def flood(seconds: int, ratio: float = 2.0) -> list[ServiceSample]:
    return [
        s for t in range(seconds + 1) for s in (sample(t, "research", t / 3, 5), sample(t, "batch", ratio * t / 3, 5))
    ]


def request(tenant: str, ttft: float) -> RequestResult:
    return RequestResult("p", "r", tenant, "a", 0, 0.0, 1.0, None, 1.0 + ttft, 9.0, 10, 5, 0, FINISHED)


def policy(name: str, jct: float, samples: list[ServiceSample], ttft: float = 0.1) -> PolicyResults:
    runs = [RunResult(name, "r", "batch", "a", 0.0, jct, 1.0, jct)]
    return PolicyResults(name, [request("support", ttft)], runs, samples)


def verdicts(ours: PolicyResults, alone: float = 0.1) -> list[bool]:
    others = [policy("fcfs", 10.0, []), policy("vtc", 8.0, [])]
    return [finding.holds for finding in find([alone], [*others, ours], 60.0, bound=5.0)]


def test_a_run_that_keeps_all_promises_holds_everywhere() -> None:
    assert all(verdicts(policy("tiered-justitia", 5.0, flood(70))))


def test_a_short_flood_proves_nothing() -> None:
    assert verdicts(policy("tiered-justitia", 5.0, flood(59)))[0] is False


@pytest.mark.parametrize(("ratio", "holds"), [(1.79, False), (1.81, True), (2.19, True), (2.21, False)])
def test_shares_hold_within_a_tenth(ratio: float, holds: bool) -> None:
    assert verdicts(policy("tiered-justitia", 5.0, flood(70, ratio)))[1] is holds


def test_what_was_had_before_both_waited_is_made_up_for_and_counts() -> None:
    head_start = [sample(0, "research", 0.0, 5), sample(0, "batch", 0.0, 0)]
    made_up = [
        s
        for t in range(1, 71)
        for s in (sample(t, "research", 2 + (t - 6) / 3 if t > 6 else 2.0, 5), sample(t, "batch", 2 * t / 3, 5))
    ]
    assert verdicts(policy("tiered-justitia", 5.0, [*head_start, *made_up]))[1]


def test_a_slow_first_token_and_a_late_mean_are_told() -> None:
    found = verdicts(policy("tiered-justitia", 9.0, flood(70), ttft=0.16))
    assert found[3:] == [False, True, False]


def test_a_moment_without_a_waiting_request_splits_the_backlog() -> None:
    samples = flood(100)
    samples[2 * 30] = sample(30, "research", 10, 0)
    window = backlog(samples)
    assert (window.start, window.end) == (31, 100)
    assert window.ratio == pytest.approx(2.0)


def test_the_bound_counts_what_either_tenant_may_have_in_the_engine() -> None:
    assert share_bound(1.0, 4.0, {"research": 1.0, "batch": 2.0, "support": 4.0}) == 2 + 4 + 2


def test_a_mean_over_survivors_is_told_and_holds_nowhere() -> None:
    ours = policy("tiered-justitia", 5.0, flood(70))
    refused = RunResult("tiered-justitia", "r2", "batch", "a", 0.0, None, 1.0, None)
    others = [policy("fcfs", 10.0, []), policy("vtc", 8.0, [])]
    findings = find([0.1], [*others, replace(ours, runs=[*ours.runs, refused])], 60.0, bound=5.0)
    assert [finding.holds for finding in findings[-2:]] == [False, False]
    assert all("without 1 runs that did not finish" in finding.measured for finding in findings[-2:])
