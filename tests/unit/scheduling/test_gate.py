"""What the gate is told between two questions counts in the next answer, and what has not changed is not asked again.

That the answers are those of the definition, whatever happened before: `tests/property/test_gate.py`.
"""

from justitia_scheduling.core.counters import Counters
from justitia_scheduling.policies.gate import Gate
from justitia_vocabulary.units import TenantId

A, B = TenantId("a"), TenantId("b")
BURST = 10.0


def gate_of(*tenants: TenantId) -> Gate:
    """Those tenants wait, their first runs in that order, none of which allows that another one is served before."""
    gate = Gate()
    for place, tenant in enumerate(tenants):
        gate.counters.enqueue(tenant)
        gate.put_first(tenant, (float(place), place), 100.0)
    return gate


def test_the_key_of_a_tenants_first_run_is_known_while_it_waits() -> None:
    gate = gate_of(A, B)
    assert (gate.key(A), gate.key(B)) == ((0.0, 0), (1.0, 1))
    gate.put_first(A, (5.0, 2), 100.0)
    assert gate.key(A) == (5.0, 2)
    gate.drop(A)
    assert gate.key(A) is None


def test_the_first_run_of_a_tenant_that_has_changed_is_another_tenants_turn() -> None:
    gate = gate_of(A, B)
    assert gate.best(BURST) == A
    gate.put_first(A, (5.0, 2), 100.0)
    assert gate.best(BURST) == B
    gate.put_first(B, (6.0, 3), 100.0)
    assert gate.best(BURST) == A


def test_when_a_tenant_has_nothing_left_it_is_the_next_ones_turn() -> None:
    gate = gate_of(A, B)
    assert gate.best(BURST) == A
    gate.drop(A)
    gate.counters.dequeue(A)
    assert gate.best(BURST) == B
    gate.drop(B)
    gate.counters.dequeue(B)
    assert gate.best(BURST) is None


def test_a_tenant_that_is_charged_beyond_the_burst_is_held_until_the_others_have_caught_up() -> None:
    gate = gate_of(A, B)
    gate.counters.charge(A, BURST, 1)
    assert gate.best(BURST) == A
    gate.counters.charge(A, 1, 1)
    assert gate.best(BURST) == B
    gate.counters.charge(B, 1, 1)
    assert gate.best(BURST) == A


def test_another_burst_is_another_question() -> None:
    gate = gate_of(A, B)
    gate.counters.charge(A, BURST, 1)
    assert gate.best(BURST) == A
    assert gate.best(BURST - 1) == B
    assert gate.best(BURST) == A


def test_where_nobody_waits_nobody_is_served_and_the_limit_is_zero() -> None:
    gate = Gate()
    assert gate.limit(BURST) == 0
    assert gate.best(BURST) is None


class Watched(Counters):
    """Counts how often the smallest counter is looked for, which is the dear part of an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_for = 0

    def smallest(self) -> TenantId | None:
        self.looked_for += 1
        return super().smallest()


def test_an_answer_to_which_nothing_has_changed_costs_nothing() -> None:
    gate = Gate()
    gate.counters = counters = Watched()
    for place, tenant in enumerate((A, B)):
        counters.enqueue(tenant)
        gate.put_first(tenant, (float(place), place), 100.0)
    gate.best(BURST)
    looked_for = counters.looked_for
    assert [gate.best(BURST) for _ in range(10)] == [A] * 10
    assert counters.looked_for == looked_for


def test_where_the_slack_decides_the_smallest_counter_is_not_looked_for() -> None:
    gate = Gate()
    gate.counters = counters = Watched()
    counters.enqueue(A)
    gate.put_first(A, (0.0, 0), 2.0)
    looked_for = counters.looked_for
    assert gate.limit(2.0) == 2
    assert counters.looked_for == looked_for
    assert gate.limit(1.0) == 1
    assert counters.looked_for > looked_for
