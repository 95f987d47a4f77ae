import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_sidecar.limits.pacing import LONGEST, MOST_KNOWN, Pace

RATE, IMMEDIATE = 50.0, 100


def test_the_first_refusals_are_immediate_and_the_next_ones_wait_their_turn() -> None:
    pace = Pace(RATE, IMMEDIATE)
    assert [pace.delay("a", 0.0) for _ in range(IMMEDIATE)] == pytest.approx([0.0] * IMMEDIATE)
    assert [pace.delay("a", 0.0) for _ in range(3)] == pytest.approx([0.02, 0.04, 0.06])
    assert pace.delay("b", 0.0) == 0.0
    assert pace.delay("a", 10.0) == 0.0


def test_nobody_waits_longer_than_the_longest() -> None:
    pace = Pace(RATE, IMMEDIATE)
    delays = [pace.delay("a", 0.0) for _ in range(1000)]
    assert max(delays) == LONGEST
    assert pace.delay("a", LONGEST) <= LONGEST


@given(st.integers(1, 60), st.lists(st.floats(0, 0.05), min_size=1, max_size=400))
def test_clients_that_wait_for_their_refusals_get_no_more_than_the_pace(clients: int, pauses: list[float]) -> None:
    """Each client asks again as soon as it was refused, after a pause."""
    pace, sent = Pace(RATE, IMMEDIATE), []
    free = [0.0] * clients
    for pause in pauses:
        first = min(range(clients), key=free.__getitem__)
        refused = free[first] + pace.delay("a", free[first])
        sent.append(refused)
        free[first] = refused + pause
    sent.sort()
    for count, moment in enumerate(sent, start=1):
        assert count <= IMMEDIATE + 1 + RATE * moment


def test_who_was_refused_longest_ago_is_forgotten_first() -> None:
    pace = Pace(1.0, 1)
    for who in ("first", *range(MOST_KNOWN - 1), "first", "new"):
        pace.delay(who, 0.0)
    assert pace.delay("first", 0.0) > 0
    assert pace.delay(0, 0.0) == 0.0
