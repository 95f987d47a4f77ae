"""Fair sharing on two levels."""

from justitia_benchmarks.baselines import TwoLevelVTC
from justitia_scheduling.core.cost import WeightedTokens
from justitia_scheduling.policies.vtc import VTC
from justitia_vocabulary.units import TenantId
from support.reserving_engine import Job, ReservingEngine

A, B = TenantId("a"), TenantId("b")


def admissions(policy: TwoLevelVTC | VTC, jobs: list[Job]) -> list[str]:
    engine = ReservingEngine(policy, 12, jobs)
    while not engine.done:
        engine.tick()
    assert not policy.requests
    return list(engine.admissions)


def test_with_one_tenant_it_is_vtc_with_each_run_a_client() -> None:
    jobs = [Job(A, 4, 4 + i % 3, arrival=i % 5, run=f"r{i % 4}") for i in range(24)]
    clients = [Job(TenantId(job.run or ""), job.prompt, job.output, job.arrival, run=job.run) for job in jobs]
    assert admissions(TwoLevelVTC(WeightedTokens()), jobs) == admissions(VTC(WeightedTokens()), clients)


def test_with_runs_of_one_request_it_is_vtc_between_tenants() -> None:
    jobs = [Job((A, B)[i % 2], 4, 4 + i % 3, arrival=i % 5) for i in range(24)]
    assert admissions(TwoLevelVTC(WeightedTokens()), jobs) == admissions(VTC(WeightedTokens()), jobs)


def test_a_tenant_with_many_runs_gets_no_more_than_one_with_few() -> None:
    jobs = [Job(A, 4, 4, run=f"many{i}") for i in range(12)] + [Job(B, 4, 4, run="one") for _ in range(12)]
    policy = TwoLevelVTC(WeightedTokens())
    engine = ReservingEngine(policy, 12, jobs)
    engine.tick()
    while len(engine.backlogged()) == 2:
        engine.tick()
    most_in_engine = 2 * 12
    assert policy.service[A] > most_in_engine
    assert abs(policy.service[A] - policy.service[B]) <= 2 * most_in_engine
