"""When a request would begin, against a fluid server that is followed event by event; and who can delay it."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.asked import Asked
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.model import ApplicationShare
from justitia_scheduling.objectives.reach import OfTenant, Pace, Waiting, begins_after, fair_time, reach
from justitia_vocabulary.units import ApplicationId, TenantId

TENANTS = [TenantId(name) for name in "fgh"]
APPLICATIONS = [ApplicationId(name) for name in "abc"]
ME, MINE = TENANTS[0], APPLICATIONS[0]

waitings = st.builds(
    Waiting,
    st.floats(0.01, 100.0),
    st.builds(ApplicationShare, st.sampled_from([0.25, 1.0, 3.0]), st.integers(-1, 1)),
)
backlogs = st.dictionaries(
    st.sampled_from(TENANTS), st.dictionaries(st.sampled_from(APPLICATIONS), waitings, min_size=1), min_size=1
)
weights_of_tenants = st.fixed_dictionaries({tenant: st.sampled_from([0.5, 1.0, 4.0]) for tenant in TENANTS})


Backlog = Mapping[TenantId, OfTenant]


def begins(backlog: Backlog, weights: Mapping[TenantId, float]) -> float:
    """When a request of my application begins. A tenant without a weight has 1."""
    others = [
        (weights.get(tenant, 1.0), sum(each.work for each in of_tenant.values()))
        for tenant, of_tenant in backlog.items()
        if tenant != ME
    ]
    return begins_after(MINE, backlog.get(ME, {}), weights.get(ME, 1.0), others)


def rates(left: Mapping[tuple[TenantId, ApplicationId], float], backlog: Backlog, weights: Mapping[TenantId, float]):
    """How the server is shared at a moment, between those that have work left."""
    open_ = [key for key, work in left.items() if work > 1e-12]
    active = {tenant for tenant, _ in open_}
    total = sum(weights[tenant] for tenant in active)
    found = {}
    for tenant in active:
        of_tenant = [key for key in open_ if key[0] == tenant]
        highest = max(backlog[t][a].share.priority for t, a in of_tenant)
        served = [key for key in of_tenant if backlog[key[0]][key[1]].share.priority == highest]
        shares = sum(backlog[t][a].share.weight for t, a in served)
        for key in served:
            found[key] = weights[tenant] / total * backlog[key[0]][key[1]].share.weight / shares
    return found


def followed(backlog: Backlog, weights: Mapping[TenantId, float]) -> float:
    """The oracle: lets the server work from event to event, until all that waits of my application is served."""
    left = {(t, a): each.work for t, of_tenant in backlog.items() for a, each in of_tenant.items()}
    now = 0.0
    while left.get((ME, MINE), 0.0) > 1e-12:
        speed = rates(left, backlog, weights)
        step = min(left[key] / rate for key, rate in speed.items())
        now += step
        for key, rate in speed.items():
            left[key] -= rate * step
            if left[key] < 1e-9:
                left[key] = 0.0
    return now


@given(backlogs, weights_of_tenants)
def test_a_request_begins_when_a_fluid_server_has_served_what_goes_before_it(
    backlog: Backlog, weights: dict[TenantId, float]
) -> None:
    assert begins(backlog, weights) == pytest.approx(followed(backlog, weights), rel=1e-6, abs=1e-6)


@given(backlogs, weights_of_tenants)
def test_others_delay_a_request_by_no_more_than_its_share_implies(
    backlog: Backlog, weights: dict[TenantId, float]
) -> None:
    """However much the other tenants have: a flood is as good as a little more than they would be served anyhow."""
    flood = {
        tenant: of_tenant if tenant == ME else {MINE: Waiting(1e9)}
        for tenant, of_tenant in ({t: {MINE: Waiting(0.0)} for t in TENANTS} | dict(backlog)).items()
    }
    alone = begins({ME: backlog.get(ME, {})}, weights)
    share = weights[ME] / sum(weights.values())
    assert begins(flood, weights) <= alone / share * (1 + 1e-9)
    assert begins(flood, weights) >= begins(backlog, weights) - 1e-9


def test_by_arrival_a_flood_would_delay_without_end() -> None:
    """The negative control: the same bound on a server that serves in the order of arrival."""
    flood = {ME: {MINE: Waiting(1.0)}, TENANTS[1]: {MINE: Waiting(1e9)}}
    by_arrival = sum(each.work for of_tenant in flood.values() for each in of_tenant.values())
    assert begins(flood, {}) == pytest.approx(2.0)
    assert by_arrival > 2.0


def test_nothing_before_it_is_no_wait_however_much_others_have() -> None:
    others = {TENANTS[1]: {MINE: Waiting(1e9)}, ME: {APPLICATIONS[1]: Waiting(1e9)}}
    assert begins(others, {}) == 0.0


@given(st.floats(0.01, 100), st.lists(st.tuples(st.sampled_from([0.5, 1.0, 4.0]), st.floats(0, 100))))
def test_a_fair_time_lies_between_the_work_alone_and_all_work(work: float, others: list[tuple[float, float]]) -> None:
    assert work <= fair_time(work, 1.0, others) <= work + sum(theirs for _, theirs in others) + 1e-9


def test_a_request_reads_and_then_decodes_at_the_present_step() -> None:
    pace = Pace(StepTime(0.02, 0.0001, 1e-6), running=10, resident=20_000)
    assert pace.step == pytest.approx(0.02 + 0.001 + 0.02)
    found = reach(3.0, pace, prompt=1000, output=101)
    assert found.first_token == pytest.approx(3.0 + 0.02 + 0.1)
    assert found.completion == pytest.approx(found.first_token + 100 * pace.step)


@given(st.integers(1, 20), st.integers(1, 5000), st.integers(1, 500))
def test_work_is_what_the_cost_model_charges_for_the_same_steps(running: int, prompt: int, output: int) -> None:
    """Charged step by step: the prompt, then for each token its part of a step and the KV that is read."""
    times = StepTime(0.02, 0.0001, 1e-6)
    steps = sum(0.02 / running + 0.0001 + 1e-6 * (prompt + i) for i in range(1, output + 1))
    expected = 0.0001 * prompt + steps
    assert math.isclose(Pace(times, running, 0).work(Asked.of(1, prompt, output)), expected, rel_tol=1e-9)
