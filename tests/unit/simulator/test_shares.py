import pytest

from justitia_simulator.records import PolicyResults, ServiceSample
from justitia_simulator.shares import share_errors


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
    errors = share_errors(served, 1)
    assert errors.error.tolist() == pytest.approx([0, 0])
    assert errors.gap.tolist() == pytest.approx([0, 0])


def test_the_error_is_the_distance_of_the_share_from_the_due_one() -> None:
    served = results({"a": [(0, 1), (3, 1), (3, 1)], "b": [(0, 1), (1, 1), (4, 1)]})
    assert share_errors(served, 1).error.tolist() == pytest.approx([0.25, 0.5])
    assert share_errors(served, 1).gap.tolist() == pytest.approx([2, 3])
    assert share_errors(served, 2).error.tolist() == pytest.approx([0.5 - 3 / 7])


def test_a_window_counts_only_tenants_that_waited_throughout() -> None:
    served = results({"a": [(0, 1), (3, 0), (3, 1)], "b": [(0, 1), (1, 1), (4, 1)], "c": [(0, 2), (1, 2), (2, 2)]})
    assert share_errors(served, 1).error.tolist() == pytest.approx([0.0, 0.25])


def test_windows_shorter_than_the_distance_of_samples_are_refused() -> None:
    with pytest.raises(ValueError, match=r"windows of 0.5 s, but samples lie 1.0 s apart"):
        share_errors(results({"a": [(0, 1), (1, 1)], "b": [(0, 1), (1, 1)]}), 0.5)
