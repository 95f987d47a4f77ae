"""Tiered Justitia contains the policies it is made of, and revises no run too often (ALGORITHMS, section 4)."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core import estimate
from justitia_scheduling.core.cost import CostModel, KVTokenTimeCost, WeightedTokens
from justitia_scheduling.core.gps import Tick
from justitia_scheduling.core.model import Progress, Request, Run, Step, kv_token_time
from justitia_scheduling.core.opened import OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.justitia import Justitia
from justitia_scheduling.policies.tiered import THETA, TieredJustitia
from justitia_scheduling.policies.vtc import VTC
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, Seconds, TenantId
from support.examples import examples
from support.reserving_engine import Job, ReservingEngine

CAPACITY = 64
KAPPA = 5
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
@examples(100)
def test_one_tenant_with_kappa_1_is_served_as_by_justitia(jobs: list[Job]) -> None:
    ours = ReservingEngine(TieredJustitia(KVTokenTimeCost(), kappa=1.0, theta=math.inf), CAPACITY, jobs)
    paper = ReservingEngine(Justitia(KVTokenTimeCost()), CAPACITY, jobs)
    for engine in (ours, paper):
        while not engine.done:
            engine.tick()
    assert ours.admissions == paper.admissions


class StretchedJustitia(Justitia):
    """The paper's policy with every run's cost multiplied by kappa in its tag, and true in the fluid server."""

    def run_key(self, run: OpenRun) -> Tick:
        start, finish = self.virtual_time.tag(run.id, 0), self.virtual_time.finish(run.id)
        return start + KAPPA * (finish - start)


def served(policy: Policy, jobs: list[Job], weight: float = 1.0) -> list[RequestId]:
    """Requests in the order of their admission."""
    for tenant in {job.tenant for job in jobs}:
        policy.set_weight(tenant, weight, 0)
    engine = ReservingEngine(policy, CAPACITY, jobs)
    while not engine.done:
        engine.tick()
    return engine.admissions


@given(jobs=runs_with_true_predictions(TENANTS[:1]), weight=st.sampled_from([0.5, 1.0, 4.0]))
@examples(60)
def test_one_tenant_is_served_as_by_stretched_justitia(jobs: list[Job], weight: float) -> None:
    ours = served(TieredJustitia(KVTokenTimeCost(), kappa=KAPPA, theta=math.inf), jobs, weight)
    assert ours == served(StretchedJustitia(KVTokenTimeCost()), jobs, weight)


class BesideVTC(TieredJustitia):
    """Without slack; a weighted VTC is told the same events, and every head must be one that VTC could choose."""

    def __init__(self, cost_model: CostModel, in_order: bool) -> None:
        super().__init__(cost_model, kappa=1.0, theta=math.inf, burst=0.0)
        self.vtc = VTC(cost_model)
        self.in_order = in_order

    def head(self) -> RequestId | None:
        head = super().head()
        if head is not None:
            tenant = self.requests[head].tenant
            assert self.vtc.counters[tenant] == min(self.vtc.counters[g] for g in self.vtc.counters.waiting)
            firsts = [r for r in self.vtc.order() if self.vtc.requests[r].tenant == tenant]
            assert not self.in_order or head == firsts[0]
        return head

    def set_weight(self, tenant: TenantId, weight: float, now: Seconds) -> None:
        super().set_weight(tenant, weight, now)
        self.vtc.set_weight(tenant, weight, now)

    def run_arrived(self, run: Run, now: Seconds) -> None:
        super().run_arrived(run, now)
        self.vtc.run_arrived(run, now)

    def request_arrived(self, request: Request, now: Seconds) -> None:
        super().request_arrived(request, now)
        self.vtc.request_arrived(request, now)

    def admitted(self, request_id: RequestId, now: Seconds, cached_tokens: int = 0) -> None:
        super().admitted(request_id, now, cached_tokens)
        self.vtc.admitted(request_id, now, cached_tokens)

    def stepped(self, step: Step, now: Seconds) -> None:
        self.vtc.stepped(step, now)
        super().stepped(step, now)

    def finished(self, request_id: RequestId, now: Seconds) -> None:
        super().finished(request_id, now)
        self.vtc.finished(request_id, now)


@pytest.mark.parametrize("cost", [KVTokenTimeCost(), WeightedTokens()], ids=lambda cost: cost.unit)
@given(jobs=runs_with_true_predictions(TENANTS), weight=st.lists(st.floats(0.25, 4), min_size=3, max_size=3))
@examples(60)
def test_without_slack_tenants_are_served_as_by_weighted_vtc(
    cost: CostModel, jobs: list[Job], weight: list[float]
) -> None:
    policy = BesideVTC(cost, in_order=False)
    for tenant, w in zip(TENANTS, weight, strict=True):
        policy.set_weight(tenant, w, 0)
    engine = ReservingEngine(policy, CAPACITY, jobs)
    while not engine.done:
        engine.tick()
    assert len(engine.admissions) == len(jobs)


@given(jobs=runs_with_true_predictions(TENANTS), weight=st.lists(st.floats(0.25, 4), min_size=3, max_size=3))
@examples(60)
def test_without_slack_single_requests_of_one_prediction_are_served_as_by_weighted_vtc(
    jobs: list[Job], weight: list[float]
) -> None:
    """No record is kept, so that estimates are as predicted."""
    policy = BesideVTC(WeightedTokens(), in_order=True)
    for tenant, w in zip(TENANTS, weight, strict=True):
        policy.set_weight(tenant, w, 0)
    single = [replace(job, run=None, application=f"a{i}", predicted=1e6) for i, job in enumerate(jobs)]
    engine = ReservingEngine(policy, CAPACITY, single)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimate, "REMEMBERED_RUNS", 0)
        while not engine.done:
            engine.tick()
    assert len(engine.admissions) == len(jobs)


@given(jobs=runs_with_true_predictions(TENANTS[:1]))
@examples(60)
def test_a_stretch_without_end_serves_the_shortest_run_first(jobs: list[Job]) -> None:
    """kappa = 1e12: among the waiting runs the one of least cost, whenever they came."""

    class Watched(TieredJustitia):
        def head(self) -> RequestId | None:
            head = super().head()
            if head is not None:
                costs = {request.id: request.run.run.predicted_cost or 0.0 for request in self.waiting()}
                assert costs[head] == min(costs.values())
            return head

    assert len(served(Watched(KVTokenTimeCost(), kappa=1e12, theta=math.inf), jobs)) == len(jobs)


@given(
    first=st.floats(1, 1e5),
    outputs=st.lists(st.integers(1, 300), min_size=1, max_size=5),
    theta=st.sampled_from([None, 1.5, 2.0, 3.0]),
)
@examples(100)
def test_a_run_is_revised_at_most_logarithmically_often(first: float, outputs: list[int], theta: float | None) -> None:
    policy = TieredJustitia(KVTokenTimeCost(), theta=theta)
    policy.run_arrived(Run(RunId("r"), TENANTS[0], ApplicationId("a"), first), 0)
    for i, output in enumerate(outputs):
        request = RequestId(f"q{i}")
        policy.request_arrived(Request(request, RunId("r"), 10), 0)
        policy.admitted(request, 0)
        for _ in range(output):
            policy.stepped(Step([Progress(request, produced=1)]), 0)
        policy.finished(request, 0)
    cost = sum(kv_token_time(10, output) for output in outputs)
    most_asked = 10 * max(outputs) + max(outputs) ** 2 / 2
    assert policy.revisions < 1 + max(0.0, math.log((cost + most_asked) / first) / math.log(theta or THETA))
