"""The two rules of admission, by hand and against stepping through the batch."""

from hypothesis import given
from hypothesis import strategies as st

from justitia_simulator.occupancy import peak_tokens, reserved_tokens


def test_a_reservation_adds_up_everything() -> None:
    assert reserved_tokens([(10, 5), (20, 1)]) == 36


def test_the_peak_counts_what_a_short_request_frees_before_a_long_one_has_grown() -> None:
    # After one step 11 + 21 are held; then the second is gone and the first grows to 15.
    assert peak_tokens([(10, 5), (20, 1)]) == 32


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 30)), max_size=8))
def test_the_peak_is_what_stepping_through_the_batch_finds(batch: list[tuple[int, int]]) -> None:
    held = [sum(h + step for h, remaining in batch if remaining >= step) for step in range(32)]
    assert peak_tokens(batch) == max(held)
    assert peak_tokens(batch) <= reserved_tokens(batch)
