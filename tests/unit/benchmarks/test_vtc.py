"""The workloads and contenders of the VTC paper's evaluation, against what its authors measured."""

from collections import Counter

import pytest

from justitia_benchmarks.experiments.vtc import serve
from justitia_benchmarks.experiments.vtc_policies import accepted, lengths_within
from justitia_simulator.mixes import vtc_workload
from support.measured import measured


@pytest.mark.parametrize("limit", [5, 20, 30])
def test_the_rate_limit_lets_in_what_the_authors_let_in(limit: int) -> None:
    served = Counter(r.client for r in measured("real", f"rpm-{limit}"))
    let_in = Counter(run.tenant for run in accepted(vtc_workload("real", seed=0), f"rpm-{limit}"))
    assert sum((served - let_in).values()) + sum((let_in - served).values()) <= 0.01 * sum(served.values())


def test_told_lengths_are_off_by_no_more_than_the_error() -> None:
    runs = vtc_workload("overload", seed=3)
    told = [output for t in lengths_within(0.5, seed=1).tell(runs).values() for output in t.outputs]
    assert min(told) >= 128
    assert max(told) <= 384
    assert sum(told) / len(told) == pytest.approx(256, rel=0.05)


def test_a_held_request_waits_for_its_minute_and_is_served_where_a_refused_one_is_not() -> None:
    runs = [run for run in vtc_workload("real", seed=0) if run.arrival < 120]
    assert len(accepted(runs, "rpm-5")) < len(runs) == len(accepted(runs, "rpm-5-held"))
    admitted = [r for r in serve(runs, "rpm-5-held", seed=0) if r.client == "0"]
    # Each minute lets five of a client in; the sixth waits for the next.
    sixth = sorted(r.first_token for r in admitted)[5]
    assert sixth >= 60 > sorted(r.arrival for r in admitted)[5]
