"""A large run among small ones that never end: Justitia bounds its delay, shortest remaining job first does not.

Source: Justitia, section V-C (starvation avoidance). In the first tests three small runs arrive whenever three have
left, so the engine is always full, and the large run fits only where a small one has been put off. In the others as
many small runs as there are clients are always open, which `docs/design/tiered-justitia.md` ("How long a large run
waits") has the bound for.
"""

import itertools

import pytest

from justitia_scheduling.baselines.justitia_c import JustitiaC
from justitia_scheduling.baselines.parrot import Parrot
from justitia_scheduling.baselines.srjf import SRJF
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.model import kv_token_time
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.justitia import Justitia
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.units import RequestId, TenantId
from support.reserving_engine import Job, ReservingEngine
from support.script import Script

CAPACITY = 64
LARGE = [Job(TenantId("large"), 10, 20, predicted=4 * kv_token_time(10, 20), run="large", told=(40, 80))] * 4


def finish_of_the_large_run(policy: Policy, batches: int) -> int:
    """The iteration in which the last of its four requests has finished."""
    small = [
        Job(TenantId("small"), 10, 10, arrival=10 * batch, predicted=kv_token_time(10, 10), told=(10, 10))
        for batch in range(batches)
        for _ in range(3)
    ]
    engine = ReservingEngine(policy, CAPACITY, [*small[:3], *LARGE, *small[3:]])
    large = {RequestId(f"q{i}") for i in range(3, 3 + len(LARGE))}
    engine.tick()
    while large & policy.requests.keys():
        engine.tick()
    return engine.iteration


def test_srjf_puts_the_large_run_off_until_the_small_ones_end() -> None:
    for batches in (50, 100, 200):
        assert finish_of_the_large_run(SRJF(KVTokenTimeCost()), batches) >= 10 * batches


@pytest.mark.parametrize("policy", [Justitia, JustitiaC, Parrot])
def test_the_large_run_finishes_at_a_time_that_does_not_depend_on_how_many_small_ones_follow(
    policy: type[Policy],
) -> None:
    finishes = {finish_of_the_large_run(policy(KVTokenTimeCost()), batches) for batches in (50, 100, 200)}
    assert len(finishes) == 1
    assert finishes.pop() < 500


def small_runs_that_pass(policy: Policy, ratio: int, clients: int, most: int) -> int:
    """How many small runs are served, at most so many, before one that came with the first and costs `ratio` as much
    is begun. Each takes one step of an engine that serves one at a time; its client then sends the next.
    """
    cost, numbers, script = kv_token_time(0, 1), itertools.count(), Script(policy)

    def come(name: str, cost: float) -> RequestId:
        script.run(name, cost=cost)
        return script.ask(name, prompt=0)

    for _ in range(clients):
        come(f"small{next(numbers)}", cost)
    large = come("large", ratio * cost)
    for passed in range(most):
        if policy.head() == large:
            return passed
        request = script.admit()
        run = policy.requests[request].run.id
        script.produce(request, 1)
        script.finish(request)
        script.end(run)
        come(f"small{next(numbers)}", cost)
    return most


@pytest.mark.parametrize(
    ("kappa", "ratio", "clients"), [(1.0, 100, 2), (2.0, 50, 10), (5.0, 30, 2), (5.0, 30, 10), (5.0, 100, 10)]
)
def test_a_large_run_waits_for_as_many_small_ones_as_the_fluid_model_says(
    kappa: float, ratio: int, clients: int
) -> None:
    expected = (2 * kappa - 1) * ratio**2 + 2 * kappa * ratio * clients
    passed = small_runs_that_pass(TieredJustitia(KVTokenTimeCost(), kappa=kappa), ratio, clients, round(2 * expected))
    assert passed == pytest.approx(expected, rel=0.06)
    assert small_runs_that_pass(SRJF(KVTokenTimeCost()), ratio, clients, passed + 1) > passed
