"""Virtual token counters and their lift."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.counters import Counters
from justitia_vocabulary.units import TenantId

A, B, C = TenantId("a"), TenantId("b"), TenantId("c")


def test_a_newcomer_is_lifted_to_the_smallest_counter_that_waits() -> None:
    counters = Counters()
    counters.enqueue(A)
    counters.enqueue(B)
    counters.charge(A, 100, 1)
    counters.charge(B, 60, 1)
    counters.enqueue(C)
    assert counters[C] == 60


def test_a_tenant_that_returns_to_an_empty_queue_is_lifted_to_the_last_that_left() -> None:
    counters = Counters()
    counters.enqueue(A)
    counters.charge(A, 100, 1)
    counters.dequeue(A)
    counters.enqueue(B)
    assert counters[B] == 100


def test_nobody_is_ever_lowered() -> None:
    counters = Counters()
    counters.enqueue(A)
    counters.enqueue(B)
    counters.charge(B, 500, 1)
    counters.dequeue(B)
    counters.enqueue(B)
    assert counters[B] == 500


def test_a_tenant_with_a_waiting_request_is_not_lifted() -> None:
    counters = Counters()
    counters.enqueue(A)
    counters.enqueue(B)
    counters.charge(A, 100, 1)
    counters.enqueue(B)
    assert counters[B] == 0


def test_charges_are_divided_by_weight() -> None:
    counters = Counters()
    counters.enqueue(A)
    counters.charge(A, 100, 4)
    assert counters[A] == 25


def test_equal_counters_go_by_who_was_seen_first() -> None:
    counters = Counters()
    for tenant in (B, A):
        counters.enqueue(tenant)
    assert counters.smallest() == B


@given(st.lists(st.tuples(st.sampled_from("+-$"), st.sampled_from("abcd"), st.integers(-50, 50)), max_size=200))
def test_the_smallest_is_found_whatever_happened_before(events: list[tuple[str, str, int]]) -> None:
    counters = Counters()
    seen: list[str] = []
    waiting: dict[str, int] = {}
    for what, name, amount in events:
        tenant = TenantId(name)
        if what == "+":
            counters.enqueue(tenant)
            waiting[name] = waiting.get(name, 0) + 1
            seen += [name] if name not in seen else []
        elif what == "-" and waiting.get(name):
            counters.dequeue(tenant)
            waiting[name] -= 1
        elif what == "$" and name in seen:
            counters.charge(tenant, amount, 1)
        candidates = [name for name in seen if waiting.get(name)]
        expected = min(candidates, key=lambda name: (counters[TenantId(name)], seen.index(name)), default=None)
        assert counters.smallest() == expected


def test_a_refund_lowers_a_counter_and_the_tenant_is_found_again() -> None:
    counters = Counters()
    for tenant in (A, B):
        counters.enqueue(tenant)
    counters.charge(A, 100, 1)
    counters.charge(B, 50, 1)
    assert counters.smallest() == B
    counters.charge(A, -80, 1)
    assert counters.smallest() == A


def test_a_refund_to_a_tenant_that_is_away_puts_it_into_no_line() -> None:
    counters = Counters()
    counters.enqueue(A)
    counters.charge(A, 100, 1)
    counters.dequeue(A)
    counters.charge(A, -80, 1)
    assert counters[A] == 20
    assert counters.smallest() is None


def test_a_tenant_that_was_never_seen_has_had_nothing() -> None:
    assert Counters()[A] == 0


def test_every_change_is_counted() -> None:
    counters = Counters()
    assert counters.changes == 0
    counters.enqueue(A)
    counters.enqueue(A)
    counters.charge(A, 100, 1)
    counters.charge(A, -10, 1)
    counters.dequeue(A)
    counters.dequeue(A)
    assert counters.changes == 6


def test_all_that_wait_in_order_the_first_seen_among_equals() -> None:
    counters = Counters()
    for tenant in (C, B, A):
        counters.enqueue(tenant)
    counters.charge(C, 10, 1)
    counters.enqueue(TenantId("gone"))
    counters.dequeue(TenantId("gone"))
    assert counters.in_order() == [B, A, C]


def test_a_large_weight_beside_a_small_one_is_charged_as_much_as_it_is_served() -> None:
    """At this counter, a charge by itself would be rounded up by a sixth."""
    counters = Counters()
    counters.enqueue(A)
    counters.charge(A, 0.6, 1e-6)
    counters.enqueue(B)
    before = counters[B]
    for _ in range(100_000):
        counters.charge(B, 1e-4, 1e6)
    assert (counters[B] - before) * 1e6 == pytest.approx(10.0, rel=1e-4)


@given(charges=st.lists(st.tuples(st.floats(1e-6, 1e3), st.floats(-6, 6), st.integers(1, 300)), min_size=2, max_size=8))
def test_the_sum_of_any_charges_is_exact_to_the_last_digit(charges: list[tuple[float, float, int]]) -> None:
    """Each comes some times, for a weight of ten to the power that is drawn."""
    counters, exact = Counters(), Fraction(0)
    counters.enqueue(A)
    for charge, exponent, times in charges:
        for _ in range(times):
            before = counters[A]
            counters.charge(A, charge, 10.0**exponent)
            assert counters[A] >= before
        exact += times * Fraction(charge / 10.0**exponent)
    assert abs(Fraction(counters[A]) - exact) <= Fraction(math.ulp(counters[A]))
