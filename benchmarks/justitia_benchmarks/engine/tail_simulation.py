"""What the simulator says of UniBoost's tail on the bench's engine, whose step time was measured."""

import math
from collections.abc import Sequence
from statistics import fmean

from justitia_benchmarks.engine.servers import TOKEN_BUDGET
from justitia_benchmarks.engine.tail_plan import SIMULATED_WAYS, Capacity, Simulated, TailLoad, TailWay, Tuning
from justitia_benchmarks.engine.tail_policies import BY_ARRIVAL, TAIL_POLICIES, UNIBOOST
from justitia_benchmarks.engine.tail_workload import (
    SEATS,
    SPACE,
    at_load,
    at_once,
    capacity_of,
    requests,
)
from justitia_benchmarks.engine.workload import BLOCK
from justitia_benchmarks.experiments.boost_serving import NO_SAMPLES, figures
from justitia_scheduling.core.cost import EngineTime, StepTime
from justitia_simulator.engine import Engine
from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.prediction import TRUE
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.records import PolicyResults
from justitia_simulator.timing import LinearTiming
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.policies import Knob

GAMMAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""In 1/s. Ten times those of `boost-front`, up to the largest that a pool may have: times are about a tenth."""
TUNING_SEEDS = range(101, 106)


def profile_of(step: StepTime) -> EngineProfile:
    """The bench's engine, with steps that take so long."""
    return EngineProfile(
        "bench",
        LinearTiming(step.per_step, step.per_token, step.per_token, step.per_kv_token),
        SPACE.tokens,
        block_size=BLOCK,
        admission=AdmissionRule.OPTIMISTIC,
        token_budget=TOKEN_BUDGET,
        max_requests=SEATS,
    )


def tuned_gamma(cell: Tuning, profile: EngineProfile) -> float:
    """That of `GAMMAS` with the least P99, a geometric mean over seeds."""
    draws = [_drawn(cell.load, Capacity(cell.load.mix, cell.requests, seed), profile)[0] for seed in TUNING_SEEDS]

    def p99(gamma: float) -> float:
        served = (figures(_served(UNIBOOST, gamma, runs, profile)) for runs in draws)
        return fmean(math.log(each["p99"]) for each in served)

    return min(GAMMAS, key=p99)


def simulated(cell: Simulated, profile: EngineProfile, gamma: float) -> dict[str, object]:
    """By name of the way its figures; and the engine's capacity, in tokens a second."""
    runs, capacity = _drawn(cell.load, cell.capacity, profile)

    def of(way: TailWay) -> dict[str, float]:
        return figures(_served(way.policy, gamma if way.tuned else None, runs, profile))

    return {"tokens_per_second": capacity, "ways": {way.name: of(way) for way in SIMULATED_WAYS}}


def _drawn(load: TailLoad, of: Capacity, profile: EngineProfile) -> tuple[list[WorkloadRun], float]:
    """The requests at the load, and the capacity."""
    runs = requests(of.mix, of.requests, of.seed)
    capacity = capacity_of(_served(BY_ARRIVAL, None, at_once(runs), profile).requests)
    return at_load(runs, load.rho, capacity), capacity


def _served(policy: str, gamma: float | None, runs: Sequence[WorkloadRun], profile: EngineProfile) -> PolicyResults:
    """Gamma is fixed if given."""
    built = TAIL_POLICIES[policy](EngineTime(profile.charge))
    if gamma is not None:
        built.tune({Knob.GAMMA_FLOOR: gamma, Knob.GAMMA_CEILING: gamma})
    return Engine(built, profile, label="served", prediction=TRUE, sample_every=NO_SAMPLES).serve(runs)
