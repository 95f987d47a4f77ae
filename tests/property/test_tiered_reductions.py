"""Tiered Justitia contains the policies it is made of, and revises no run too often (ALGORITHMS, section 4)."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from justitia_scheduling.cost import KVTokenTimeCost
from justitia_scheduling.justitia import Justitia
from justitia_scheduling.model import (
    ApplicationId,
    Progress,
    Request,
    RequestId,
    Run,
    RunId,
    Step,
    TenantId,
    kv_token_time,
)
from justitia_scheduling.policy import OpenRun
from justitia_scheduling.tiered import TieredJustitia
from support.reserving_engine import Job, ReservingEngine

CAPACITY = 64
TENANTS = [TenantId(f"t{i}") for i in range(3)]


@st.composite
def runs_with_true_predictions(draw: st.DrawFn, tenants: list[TenantId]) -> list[Job]:
    jobs = []
    for i in range(draw(st.integers(2, 15))):
        tenant, arrival = draw(st.sampled_from(tenants)), draw(st.integers(0, 40))
        sizes = draw(st.lists(st.tuples(st.integers(1, 25), st.integers(1, 25)), min_size=1, max_size=4))
        cost = sum(kv_token_time(p, d) for p, d in sizes)
        jobs += [Job(tenant, p, d, arrival, predicted=cost, run=f"run{i}") for p, d in sizes]
    return jobs


@given(jobs=runs_with_true_predictions(TENANTS[:1]))
@settings(max_examples=100, deadline=None)
def test_one_tenant_with_kappa_1_is_served_as_by_justitia(jobs: list[Job]) -> None:
    ours = ReservingEngine(TieredJustitia(KVTokenTimeCost(), kappa=1.0), CAPACITY, jobs)
    paper = ReservingEngine(Justitia(KVTokenTimeCost()), CAPACITY, jobs)
    for engine in (ours, paper):
        while not engine.done:
            engine.tick()
    assert ours.admissions == paper.admissions


@given(jobs=runs_with_true_predictions(TENANTS))
@settings(max_examples=100, deadline=None)
def test_without_slack_a_tenant_of_smallest_counter_is_served_as_by_vtc(jobs: list[Job]) -> None:
    class Watched(TieredJustitia):
        def head(self) -> RequestId | None:
            head = super().head()
            if head is not None:
                smallest = min(self.counters[tenant] for tenant in self.counters.waiting)
                assert self.counters[self.requests[head].tenant] == smallest
            return head

    engine = ReservingEngine(Watched(KVTokenTimeCost(), burst=0.0), CAPACITY, jobs)
    while not engine.done:
        engine.tick()
    assert len(engine.admissions) == len(jobs)


@given(
    first=st.floats(1, 1e5),
    outputs=st.lists(st.integers(1, 300), min_size=1, max_size=5),
    theta=st.sampled_from([1.5, 2.0, 3.0]),
)
@settings(max_examples=100, deadline=None)
def test_a_run_is_revised_at_most_logarithmically_often(first: float, outputs: list[int], theta: float) -> None:
    revisions = 0

    class Counting(TieredJustitia):
        def _revise(self, run: OpenRun) -> None:
            nonlocal revisions
            revisions += 1
            super()._revise(run)

    policy = Counting(KVTokenTimeCost(), theta=theta)
    policy.run_arrived(Run(RunId("r"), TENANTS[0], ApplicationId("a"), first), 0)
    for i, output in enumerate(outputs):
        request = RequestId(f"q{i}")
        policy.request_arrived(Request(request, RunId("r"), 10), 0)
        policy.admitted(request, 0)
        for _ in range(output):
            policy.stepped(Step([Progress(request, produced=1)]), 0)
        policy.finished(request, 0)
    cost = sum(kv_token_time(10, output) for output in outputs)
    allowed = 1 + math.floor(math.log(cost / (theta * first)) / (2 * math.log(theta))) if cost > theta * first else 0
    assert revisions <= allowed
