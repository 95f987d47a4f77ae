"""The workloads and contenders of the VTC paper's evaluation, against what its authors measured."""

from collections import Counter

import pytest

from justitia_benchmarks.experiments.vtc_policies import accepted, lengths_within
from justitia_benchmarks.experiments.vtc_workloads import WORKLOADS, generate, real_trace
from support.measured import measured


@pytest.mark.parametrize("limit", [5, 20, 30])
def test_the_rate_limit_lets_in_what_the_authors_let_in(limit: int) -> None:
    served = Counter(r.client for r in measured("real", f"rpm-{limit}"))
    let_in = Counter(run.tenant for run in accepted(real_trace(seed=0), f"rpm-{limit}"))
    assert sum((served - let_in).values()) + sum((let_in - served).values()) <= 0.01 * sum(served.values())


def test_the_real_trace_keeps_its_requests_whatever_the_seed() -> None:
    recorded, shifted = real_trace(0), real_trace(1)
    lengths = [sorted((r.tenant, r.requests[0].prompt_tokens) for r in runs) for runs in (recorded, shifted)]
    assert lengths[0] == lengths[1]
    assert [r.arrival for r in recorded] != [r.arrival for r in shifted]


def test_clients_send_at_the_rates_of_the_paper() -> None:
    sent = Counter(run.tenant for run in generate(WORKLOADS["increase"], seed=3))
    assert sent == {"1": 300, "2": 660}
    silent = [r for r in generate(WORKLOADS["on-off-less"], seed=3) if r.tenant == "1" and r.arrival // 60 % 2]
    assert silent == []


def test_the_shift_has_its_three_parts_one_after_the_other() -> None:
    runs = generate(WORKLOADS["shift"], seed=3)
    parts = Counter((run.tenant, int(run.arrival // 300)) for run in runs if run.arrival < 900)
    assert parts["1", 1] == pytest.approx(300, abs=1)
    assert parts["2", 0] == pytest.approx(600, abs=1)
    assert parts["2", 2] == pytest.approx(450, abs=1)


def test_told_lengths_are_off_by_no_more_than_the_error() -> None:
    runs = generate(WORKLOADS["overload"], seed=3)
    told = [output for t in lengths_within(0.5, seed=1).tell(runs).values() for output in t.outputs]
    assert min(told) >= 128
    assert max(told) <= 384
    assert sum(told) / len(told) == pytest.approx(256, rel=0.05)
