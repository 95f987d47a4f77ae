"""Adapted deficit round robin."""

import pytest

from justitia_scheduling.baselines.drr import DRR
from justitia_scheduling.core.cost import WeightedTokens
from justitia_vocabulary.units import TenantId
from support.script import Script


def drr(quantum: float) -> Script:
    return Script(DRR(WeightedTokens(), quantum=quantum))


def tenants_admitted(host: Script, count: int) -> str:
    return "".join(host.policy.requests[host.admit()].tenant for _ in range(count))


def ask_many(host: Script, tenants: str, count: int, prompt: int = 10) -> None:
    for tenant in tenants:
        for _ in range(count):
            host.ask_alone(tenant=tenant, prompt=prompt)


def test_each_visit_admits_until_the_quantum_is_used_up() -> None:
    host = drr(quantum=20)
    ask_many(host, "ab", 6)
    assert tenants_admitted(host, 12) == "aabbaabbaabb"


def test_a_last_request_may_exceed_the_credit_and_its_tenant_then_misses_rounds() -> None:
    host = drr(quantum=10)
    host.ask_alone(tenant="a", prompt=35)
    ask_many(host, "a", 1)
    ask_many(host, "b", 5)
    assert tenants_admitted(host, 7) == "abbbabb"


def test_output_is_deducted_as_it_comes() -> None:
    host = drr(quantum=10)
    ask_many(host, "ab", 4)
    running = host.admit()
    host.produce(running, 10)  # a has a credit of -20 and needs three more rounds
    assert tenants_admitted(host, 6) == "bbbaba"


def test_weights_scale_the_quantum() -> None:
    host = drr(quantum=10)
    host.policy.set_weight(TenantId("b"), 2, 0)
    ask_many(host, "ab", 6)
    assert tenants_admitted(host, 9) == "abbabbabb"


def test_a_heavier_weight_brings_a_waiting_tenant_forward() -> None:
    host = drr(quantum=10)
    host.ask_alone(tenant="a", prompt=95)
    ask_many(host, "ab", 9)
    assert tenants_admitted(host, 3) == "abb"
    host.policy.set_weight(TenantId("a"), 100, 0)
    assert tenants_admitted(host, 2) == "aa"


def test_a_tenant_that_was_away_comes_back_with_no_more_than_one_quantum() -> None:
    host = drr(quantum=10)
    ask_many(host, "a", 1)
    ask_many(host, "b", 20)
    assert tenants_admitted(host, 12) == "a" + "b" * 11
    ask_many(host, "a", 5)
    assert tenants_admitted(host, 6) == "ababab"


def test_a_huge_debt_is_found_without_walking_through_its_rounds() -> None:
    host = drr(quantum=1e-6)
    ask_many(host, "a", 2, prompt=10**9)
    assert tenants_admitted(host, 2) == "aa"


@pytest.mark.parametrize("quantum", [0.0, -1.0, float("inf")])
def test_a_quantum_that_is_not_positive_and_finite_is_refused(quantum: float) -> None:
    with pytest.raises(ValueError, match="it must be positive and finite"):
        DRR(WeightedTokens(), quantum=quantum)
