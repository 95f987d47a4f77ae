import pytest

from justitia_simulator.records import PolicyResults, ServiceSample
from justitia_simulator.shares import share_errors, widest_gaps


def results(rows: dict[str, list[tuple[float, int]]], weights: dict[str, float] | None = None) -> PolicyResults:
    """Per tenant (service, queued) at 0, 1, 2 ... seconds."""
    samples = [
        ServiceSample("p", float(t), tenant, service, queued, 0)
        for tenant, values in rows.items()
        for t, (service, queued) in enumerate(values)
    ]
    return PolicyResults("p", [], [], samples, weights or {})


def test_shares_by_weight_have_no_error() -> None:
    served = results({"a": [(0, 1), (1, 1), (2, 1)], "b": [(0, 1), (2, 1), (4, 1)]}, {"b": 2.0})
    assert share_errors(served, 1).tolist() == pytest.approx([0, 0])
    assert widest_gaps(served) == {("a", "b"): 0.0}


def test_the_error_is_the_distance_of_the_share_from_the_due_one() -> None:
    served = results({"a": [(0, 1), (3, 1), (3, 1)], "b": [(0, 1), (1, 1), (4, 1)]})
    assert share_errors(served, 1).tolist() == pytest.approx([0.25, 0.5])
    assert share_errors(served, 2).tolist() == pytest.approx([0.5 - 3 / 7])


def test_a_window_counts_only_tenants_that_waited_throughout() -> None:
    served = results({"a": [(0, 1), (3, 0), (3, 1)], "b": [(0, 1), (1, 1), (4, 1)], "c": [(0, 2), (1, 2), (2, 2)]})
    assert share_errors(served, 1).tolist() == pytest.approx([0.0, 0.25])


def test_windows_shorter_than_the_distance_of_samples_are_refused() -> None:
    with pytest.raises(ValueError, match=r"windows of 0.5 s, but samples lie 1.0 s apart"):
        share_errors(results({"a": [(0, 1), (1, 1)], "b": [(0, 1), (1, 1)]}), 0.5)


def test_a_gap_is_the_range_of_the_difference_by_weight() -> None:
    served = results({"a": [(0, 1), (6, 1), (6, 1)], "b": [(0, 1), (0, 1), (20, 1)]}, {"b": 2.0})
    assert widest_gaps(served) == {("a", "b"): 10.0}


def test_what_is_served_while_one_does_not_wait_is_no_gap() -> None:
    served = results({"a": [(0, 1), (3, 1), (50, 1), (90, 1), (91, 1)], "b": [(0, 1), (0, 1), (0, 0), (0, 1), (0, 1)]})
    assert widest_gaps(served) == {("a", "b"): 3.0}


def test_tenants_that_never_wait_together_have_no_gap() -> None:
    assert widest_gaps(results({"a": [(0, 1), (5, 0)], "b": [(0, 0), (9, 1)]})) == {("a", "b"): 0.0}
