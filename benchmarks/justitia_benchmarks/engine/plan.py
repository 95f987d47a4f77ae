"""What is measured, and in which order.

The ways of one seed and load follow each other, in an order that the seed draws: the machine's speed drifts, and ratios
are taken inside a seed. Loads are stated for the engine's step time, which is measured once for a folder and kept with
the results. So is the number of runs: a faster engine gets more of them, since it is how long an engine has more to do
than it can that makes orders differ.
"""

import hashlib
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from justitia_benchmarks.engine.measure import MEAN, NOISY, NONE, PRODUCT, RUN_VTC, SIDECAR, STOCK, TRUE, WAYS, Way
from justitia_benchmarks.engine.workload import work_seconds
from justitia_vocabulary.units import Seconds


@dataclass(frozen=True)
class EngineScenario:
    """At least so many runs at this load, with work for so many seconds of the full engine, served in these ways. What
    is `beside` them is no target: fewer seeds will do.
    """

    load: float
    runs: int
    seconds: Seconds
    ways: Sequence[Way]
    beside: Sequence[Way] = ()


@dataclass(frozen=True)
class EnginePlan:
    seeds: int
    scenarios: Sequence[EngineScenario]


SEEDS_BESIDE = 2
GROWTH = 1.1
"""By how much a number is raised until it is enough."""
AIMED_AT = (STOCK, RUN_VTC, TRUE, NOISY, MEAN, NONE, PRODUCT, SIDECAR)
OVERLOADED_RUNS = 550
"""The longer an overload lasts, the more orders differ: with fewer runs machines could not be compared."""
WHOLE = EnginePlan(
    seeds=5,
    scenarios=(
        EngineScenario(2.5, OVERLOADED_RUNS, 20.0, AIMED_AT, beside=[way for way in WAYS if way not in AIMED_AT]),
        EngineScenario(1.0, 60, 6.0, (STOCK, RUN_VTC, TRUE, MEAN)),
        EngineScenario(0.5, 60, 6.0, (STOCK, RUN_VTC, TRUE, MEAN)),
    ),
)
QUICK = EnginePlan(seeds=2, scenarios=(EngineScenario(2.5, 24, 12.0, (STOCK, RUN_VTC, TRUE, MEAN, PRODUCT, SIDECAR)),))


@dataclass(frozen=True)
class EngineCell:
    scenario: EngineScenario
    seed: int
    way: Way

    @property
    def text(self) -> str:
        return f"u = {self.scenario.load:g}, seed {self.seed}: {self.way.name}"

    @property
    def digest(self) -> str:
        """Names the cell's result, and seeds its prompts."""
        return hashlib.sha256(f"{self.scenario.load} {self.scenario.runs} {self.seed} {self.way}".encode()).hexdigest()


def sized(plan: EnginePlan, step: Seconds) -> EnginePlan:
    """The plan for an engine whose full step takes that long."""

    def runs(scenario: EngineScenario) -> int:
        return enough(scenario.runs, scenario.seconds, lambda count: work_seconds(count, step))

    return replace(plan, scenarios=[replace(each, runs=runs(each)) for each in plan.scenarios])


def enough(least: int, seconds: Seconds, work: Callable[[int], Seconds]) -> int:
    """How many, `least` or more, are `work` for so many seconds."""
    count = least
    while work(count) < seconds:
        count = math.ceil(count * GROWTH)
    return count


def cells(plan: EnginePlan) -> Iterator[EngineCell]:
    """In the order of measuring."""
    for seed in range(1, plan.seeds + 1):
        for scenario in plan.scenarios:
            ways = [*scenario.ways, *(scenario.beside if seed <= SEEDS_BESIDE else ())]
            random.Random(f"{seed}/{scenario.load}").shuffle(ways)
            yield from (EngineCell(scenario, seed, way) for way in ways)
