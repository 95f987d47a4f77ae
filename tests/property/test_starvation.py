"""A large run among small ones that never end: Justitia bounds its delay, shortest remaining job first does not.

Source: Justitia, section V-C (starvation avoidance). Three small runs arrive whenever three have left, so the engine
is always full, and the large run fits only where a small one has been put off.
"""

import pytest

from justitia_scheduling.cost import KVTokenTimeCost
from justitia_scheduling.justitia import Justitia
from justitia_scheduling.justitia_c import JustitiaC
from justitia_scheduling.model import RequestId, TenantId, kv_token_time
from justitia_scheduling.parrot import Parrot
from justitia_scheduling.policy import Policy
from justitia_scheduling.srjf import SRJF
from support.reserving_engine import Job, ReservingEngine

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
