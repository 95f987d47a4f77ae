"""A pool as the controller of gamma sees it: values that depend on gamma at a request's arrival, and noise.

Every request's value is `median(gamma, now)` times a lognormal draw of deviation `SPREAD`, for each objective by
itself, and becomes known that long after its arrival. An estimate of gamma is told as equation 9 would give it.
"""

import heapq
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from justitia_scheduling.objectives.objective import Objective
from justitia_scheduling.objectives.observations import ObjectiveId, Observations
from justitia_scheduling.objectives.slo import PERIOD, GammaController, GammaDecision
from justitia_vocabulary.objectives import MetricName

SPREAD = 0.5
Median = Callable[[float, float], float]


def normal_quantile(p: float) -> float:
    """By bisection on the error function."""
    low, high = -10.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + math.erf(middle / math.sqrt(2))) / 2 < p else (low, middle)
    return low


@dataclass
class Plant:
    """`steps` of (moment, gamma in effect, decision)."""

    controller: GammaController
    objectives: Mapping[ObjectiveId, tuple[Objective, Median]]
    rate: float = 10.0
    engine_time: float = 0.05
    replicas: int = 1
    estimate: Callable[[float], float] = lambda now: 0.1
    seed: int = 1
    now: float = 0.0
    steps: list[tuple[float, float, GammaDecision]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.source = random.Random(self.seed)
        self.seen = Observations({key: objective for key, (objective, _) in self.objectives.items()})
        self.gamma = self.estimate(0.0)
        self._known: list[tuple[float, float, ObjectiveId]] = []

    def run(self, seconds: float) -> "Plant":
        end = self.now + seconds
        arrival = self.now
        while self.now < end:
            until = self.now + PERIOD
            while (arrival := arrival + self.source.expovariate(self.rate)) < until:
                self.seen.demand.arrived("a", arrival)
                self.seen.demand.served("a", self.engine_time)
                for key, (_, median) in self.objectives.items():
                    value = median(self.gamma, arrival) * math.exp(self.source.gauss(0.0, SPREAD))
                    heapq.heappush(self._known, (arrival + value, value, key))
            self.now = arrival = until
            self._tell()
            self.step()
        return self

    def step(self) -> None:
        estimate = self.estimate(self.now)
        decision = self.controller.step(self.now, self.seen, estimate, self.replicas)
        self.gamma = min(max(estimate, decision.floor), decision.ceiling)
        self.steps.append((self.now, self.gamma, decision))

    def _tell(self) -> None:
        while self._known and self._known[0][0] <= self.now:
            moment, value, key = heapq.heappop(self._known)
            self.seen.observe(key, value, moment)
        for key, (objective, _) in self.objectives.items():
            if objective.metric is not MetricName.TIME_PER_OUTPUT_TOKEN:
                ages = [self.now - (moment - value) for moment, value, k in self._known if k == key]
                self.seen.still_open(key, ages, self.now)

    def gammas(self, since: float) -> list[float]:
        return [gamma for moment, gamma, _ in self.steps if moment >= since]


def missing(objective: Objective, median: float) -> float:
    """The share of values beyond the bound, in truth."""
    return 0.5 * math.erfc(math.log(objective.bound / median) / SPREAD / math.sqrt(2))


def turns(gammas: list[float]) -> int:
    """How often gamma changed its direction."""
    moves = [b - a for a, b in pairwise(gammas) if abs(math.log(b / a)) > 1e-9]
    return sum((a > 0) != (b > 0) for a, b in pairwise(moves))
