"""Requests per minute."""

import pytest

from justitia_scheduling.baselines.rpm import RPM
from justitia_scheduling.core.cost import WeightedTokens
from support.script import Script


def rpm(limit: int) -> Script:
    return Script(RPM(WeightedTokens(), limit=limit))


def test_what_exceeds_the_limit_waits_for_the_start_of_the_next_minute() -> None:
    host = rpm(limit=2)
    host.now = 30.0
    asked = [host.ask_alone() for _ in range(5)]
    assert host.admit_all() == asked[:2]
    assert host.policy.held_until() == 60.0
    host.now = 59.9
    host.policy.time_passed(host.now)
    assert host.admit_all() == []
    host.now = 60.0
    host.policy.time_passed(host.now)
    assert host.admit_all() == asked[2:4]
    assert host.policy.held_until() == 120.0


def test_a_tenant_under_its_limit_does_not_wait_for_one_over_it() -> None:
    host = rpm(limit=1)
    first, held = host.ask_alone(tenant="busy"), host.ask_alone(tenant="busy")
    other = host.ask_alone(tenant="light")
    assert host.policy.order() == [first, other, held]
    assert host.admit_all() == [first, other]


def test_held_requests_enter_in_order_of_arrival_whoever_asked() -> None:
    host = rpm(limit=1)
    for tenant in ("a", "b", "c"):
        host.ask_alone(tenant=tenant)
    held = [host.ask_alone(tenant=tenant) for tenant in ("c", "a", "b")]
    host.admit_all()
    host.policy.time_passed(61.0)
    assert host.admit_all() == held


def test_a_held_request_that_is_aborted_gives_its_place_to_the_next() -> None:
    host = rpm(limit=1)
    host.ask_alone()
    gone, next_one = host.ask_alone(), host.ask_alone()
    host.policy.aborted(gone, 0)
    host.admit_all()
    host.policy.time_passed(60.0)
    assert host.admit_all() == [next_one]
    assert host.policy.held_until() is None


def test_a_preempted_request_counts_once_and_returns_first() -> None:
    host = rpm(limit=2)
    host.ask_alone()
    gone = host.ask_alone()
    host.admit_all()
    other = host.ask_alone(tenant="other")
    assert host.preempt() == gone
    assert host.admit_all() == [gone, other]


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="limit=0: a tenant needs at least 1 request a minute"):
        RPM(WeightedTokens(), limit=0)
