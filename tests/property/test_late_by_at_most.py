"""Theorem 1(b): in an engine, a run finishes little later than under GPS, measured in work delivered.

GPS is driven by the work that the engine delivers, so its time is that work. Between the moment at which GPS would
have finished a run of one stage and the moment at which the engine has, the engine delivers at most

    2 * M * T_max + C_max

T_max the iterations of the longest request: M * T_max for what was in the engine when the run's turn came, as much
for what GPS has begun and the engine, which admits whole requests, has not. The oracle is `support.fluid_gps`.
"""

import random

import pytest

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.gps import VirtualTime
from justitia_scheduling.core.model import kv_token_time
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.justitia import Justitia
from justitia_vocabulary.units import KVTokenTime, RunId, TenantId
from support.fluid_gps import Arrival, gps_finishes
from support.reserving_engine import Job, ReservingEngine

CAPACITY = 64
TENANTS = [TenantId(f"t{i}") for i in range(3)]


class ClockOfWholeEngine(VirtualTime):
    """Takes every iteration to deliver M, as the paper prints it."""

    def advance(self, delivered: KVTokenTime) -> None:
        super().advance(CAPACITY)


class DrivenByM(Justitia):
    def __init__(self) -> None:
        super().__init__(KVTokenTimeCost())
        self.virtual_time = ClockOfWholeEngine()


def lag(policy: Policy, jobs: list[Job], weight: dict[TenantId, float]) -> float:
    """The most work delivered between a run's finish under GPS and in the engine, as a share of the bound."""
    for tenant, w in weight.items():
        policy.set_weight(tenant, w, 0)
    engine = ReservingEngine(policy, CAPACITY, jobs)
    cost: dict[RunId, float] = {}
    for request, job in engine.jobs.items():
        cost[engine.run(request)] = cost.get(engine.run(request), 0.0) + kv_token_time(job.prompt, job.output)
    arrived: dict[RunId, tuple[float, float]] = {}
    finished: dict[RunId, float] = {}
    while not engine.done:
        delivered = sum(policy.service.values())
        engine.tick()
        for request in engine.arrived:
            arrived.setdefault(engine.run(request), (delivered, weight[engine.jobs[request].tenant]))
        for run in arrived.keys() - policy.runs.keys() - finished.keys():
            finished[run] = sum(policy.service.values())
    fair = gps_finishes([Arrival(at, cost[run], w) for run, (at, w) in arrived.items()], rate=1.0)
    longest = max(job.output for job in jobs)
    bound = 2 * CAPACITY * longest + max(cost.values())
    return max(finished[run] - fair[i] for i, run in enumerate(arrived)) / bound


def single_stage_runs(seed: int, load: float, count: int = 150) -> list[Job]:
    """Runs of one to six parallel requests, their costs over two orders of magnitude, perfectly predicted."""
    draw = random.Random(seed)
    jobs: list[Job] = []
    at = 0.0
    for i in range(count):
        scale = draw.choices((3, 8, 24), (72, 26, 2))[0]
        sizes = [(draw.randint(1, scale), draw.randint(1, scale)) for _ in range(draw.randint(1, 6))]
        cost = sum(kv_token_time(p, d) for p, d in sizes)
        at += draw.expovariate(load * CAPACITY / 160)
        jobs += [Job(TENANTS[i % 3], p, d, int(at), cost, f"run{i}") for p, d in sizes]
    return jobs


@pytest.mark.parametrize("load", [0.5, 1.0, 3.0], ids="load {}".format)
@pytest.mark.parametrize("seed", range(4))
def test_a_run_of_one_stage_is_late_by_at_most_the_bound(seed: int, load: float) -> None:
    jobs = single_stage_runs(seed, load)
    assert lag(Justitia(KVTokenTimeCost()), jobs, dict.fromkeys(TENANTS, 1.0)) <= 1
    assert lag(Justitia(KVTokenTimeCost()), jobs, {TENANTS[0]: 1.0, TENANTS[1]: 2.0, TENANTS[2]: 4.0}) <= 1


def small_runs_behind_large_ones() -> list[Job]:
    """Many equal runs at once; when GPS is halfway through, small ones that it would finish first."""
    large = [Job(TENANTS[0], 2, 30, predicted=kv_token_time(2, 30)) for _ in range(120)]
    small = [Job(TENANTS[1], 2, 15, 900, predicted=kv_token_time(2, 15)) for _ in range(5)]
    return large + small


def test_a_clock_driven_by_m_breaks_the_bound() -> None:
    """The engine delivers about half of M an iteration, so this clock runs at twice the speed of GPS."""
    equal = dict.fromkeys(TENANTS, 1.0)
    assert lag(DrivenByM(), small_runs_behind_large_ones(), equal) > 1
    assert lag(Justitia(KVTokenTimeCost()), small_runs_behind_large_ones(), equal) <= 1


def test_first_come_first_served_breaks_the_bound() -> None:
    assert lag(FCFS(KVTokenTimeCost()), small_runs_behind_large_ones(), dict.fromkeys(TENANTS, 1.0)) > 1
