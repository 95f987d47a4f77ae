"""RPM on an engine that admits at once: what it lets through, minute by minute. A control without limit breaks it."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.baselines.rpm import RPM
from justitia_scheduling.core.cost import WeightedTokens
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.fcfs import FCFS
from justitia_vocabulary.units import RequestId, TenantId
from support.examples import examples
from support.reserving_engine import Job, ReservingEngine

TENANTS = [TenantId(f"t{i}") for i in range(3)]

bursts = st.lists(
    st.builds(
        Job,
        tenant=st.sampled_from(TENANTS),
        prompt=st.just(1),
        output=st.integers(1, 3),
        arrival=st.integers(0, 150),
        predicted=st.none(),
        run=st.none(),
    ),
    max_size=60,
)


def admission_times(policy: Policy, workload: list[Job]) -> dict[RequestId, int]:
    """The second in which each request was admitted; an iteration takes a second and everything fits."""
    engine = ReservingEngine(policy, 10_000, workload)
    times: dict[RequestId, int] = {}
    while not engine.done:
        engine.tick()
        for request in engine.admissions[len(times) :]:
            times[request] = engine.iteration - 1
    return times


def over_limit(times: dict[RequestId, int], workload: list[Job], limit: int) -> bool:
    tenant = {RequestId(f"q{i}"): job.tenant for i, job in enumerate(workload)}
    per_minute = Counter((tenant[request], at // 60) for request, at in times.items())
    return any(count > limit for count in per_minute.values())


@given(workload=bursts, limit=st.integers(1, 6))
@examples(60)
def test_no_minute_has_more_than_the_limit_and_nothing_is_lost_or_held_without_need(
    workload: list[Job], limit: int
) -> None:
    times = admission_times(RPM(WeightedTokens(), limit=limit), workload)
    assert len(times) == len(workload)
    assert not over_limit(times, workload, limit)
    for i, job in enumerate(workload):
        at = times[RequestId(f"q{i}")]
        for minute in range(job.arrival // 60, at // 60):
            through = [j for j in range(len(workload)) if times[RequestId(f"q{j}")] // 60 == minute]
            assert sum(workload[j].tenant == job.tenant for j in through) == limit, "held though its minute had a place"


@given(workload=bursts.filter(bool), limit=st.integers(1, 6))
@examples(40)
def test_any_sixty_seconds_have_at_most_twice_the_limit(workload: list[Job], limit: int) -> None:
    times = admission_times(RPM(WeightedTokens(), limit=limit), workload)
    for tenant in TENANTS:
        own = sorted(times[RequestId(f"q{i}")] for i, job in enumerate(workload) if job.tenant == tenant)
        assert all(sum(start <= at < start + 60 for at in own) <= 2 * limit for start in own)


def test_without_the_limit_a_burst_goes_through_at_once() -> None:
    burst = [Job(TENANTS[0], 1, 1) for _ in range(10)]
    assert over_limit(admission_times(FCFS(WeightedTokens()), burst), burst, 4)
    assert not over_limit(admission_times(RPM(WeightedTokens(), limit=4), burst), burst, 4)
