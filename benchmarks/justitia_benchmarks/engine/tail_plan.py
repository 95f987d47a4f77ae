"""What is measured of UniBoost's tail, and in which order.

Ratios are taken inside a seed: its cells follow each other, the ways in an order that the seed draws, because the
machine's speed drifts. TRAIL+ is served twice: its ratio to itself is what drift alone does. How many requests there
are follows from the engine's speed, so that a cell takes about as long on any.
"""

import hashlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from justitia_benchmarks.engine.tail_policies import BY_ARRIVAL, TOLD_SJF, TRAIL_PLUS, UNIBOOST
from justitia_benchmarks.engine.tail_workload import requests, tokens_of
from justitia_vocabulary.units import Seconds


@dataclass(frozen=True)
class TailLoad:
    """A mix whose work arrives at `rho` times what the engine sustains."""

    mix: str
    rho: float

    @property
    def text(self) -> str:
        return f"{self.mix}, rho {self.rho:g}"


@dataclass(frozen=True)
class TailWay:
    """A policy of `TAIL_POLICIES`; with `tuned` its gamma is fixed at what `Tuning` found."""

    name: str
    policy: str
    tuned: bool = False


TRAIL = TailWay("TRAIL+", TRAIL_PLUS)
TRAIL_AGAIN = TailWay("TRAIL+ again", TRAIL_PLUS)
ADAPTIVE = TailWay("UniBoost, its own gamma", UNIBOOST)
TUNED = TailWay("UniBoost, gamma tuned", UNIBOOST, tuned=True)
ARRIVAL = TailWay("FCFS", BY_ARRIVAL)
SIMULATED_WAYS = (TRAIL, ADAPTIVE, TUNED, ARRIVAL, TailWay("SJF", TOLD_SJF))
SERVED_WAYS = (*SIMULATED_WAYS, TRAIL_AGAIN)


@dataclass(frozen=True)
class TailPlan:
    """Each load with so many seeds; the requests are what the engine serves in so many seconds. In fewer than 20 hardly
    a queue forms: the longest requests run for as long, and every order is the same.
    """

    loads: Sequence[TailLoad]
    seeds: int
    seconds: Seconds

    @property
    def mixes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(load.mix for load in self.loads))


HEAVY, OVERLOADED = TailLoad("heavy-70", 0.99), TailLoad("light-70", 1.1)
"""The paper's load, at which a queue comes and goes, and one at which it grows for as long as requests arrive."""
WHOLE_TAIL = TailPlan((HEAVY, OVERLOADED), seeds=5, seconds=20.0)
QUICK_TAIL = TailPlan((HEAVY, OVERLOADED), seeds=1, seconds=20.0)


class Kept:
    """What is measured at a time."""

    @property
    def digest(self) -> str:
        """Names the result, and seeds the prompts."""
        return hashlib.sha256(str(self).encode()).hexdigest()


@dataclass(frozen=True)
class Speed(Kept):
    """How fast the engine is: tokens a second of each mix, and its step time."""

    mixes: Sequence[str]
    text = "the engine's speed"


@dataclass(frozen=True)
class Tuning(Kept):
    """The fixed gamma with the least P99 on the simulated engine, for as many requests that are not measured."""

    load: TailLoad
    requests: int

    @property
    def text(self) -> str:
        return f"{self.load.text}: gamma"


@dataclass(frozen=True)
class Capacity(Kept):
    """Tokens a second of the engine for a seed's requests."""

    mix: str
    requests: int
    seed: int

    @property
    def text(self) -> str:
        return f"{self.mix}, seed {self.seed}: capacity"


@dataclass(frozen=True)
class Simulated(Kept):
    """A seed's requests in all ways on the simulated engine, the load being that of its own capacity."""

    load: TailLoad
    capacity: Capacity

    @property
    def text(self) -> str:
        return f"{self.load.text}, seed {self.capacity.seed}: simulated"


@dataclass(frozen=True)
class Served(Kept):
    """A seed's requests at the load, served by the engine in one way."""

    load: TailLoad
    capacity: Capacity
    way: TailWay

    @property
    def text(self) -> str:
        return f"{self.load.text}, seed {self.capacity.seed}: {self.way.name}"


TailCell = Tuning | Capacity | Simulated | Served


def tail_cells(plan: TailPlan, capacity: Mapping[str, float]) -> Iterator[TailCell]:
    """In the order of measuring, for an engine with this capacity for each mix, in tokens a second."""
    counts = {mix: requests_for(mix, plan.seconds, capacity[mix]) for mix in plan.mixes}
    yield from (Tuning(load, counts[load.mix]) for load in plan.loads)
    for seed in range(1, plan.seeds + 1):
        for mix, count in counts.items():
            of_seed = Capacity(mix, count, seed)
            yield of_seed
            for load in (load for load in plan.loads if load.mix == mix):
                ways = list(SERVED_WAYS)
                random.Random(f"{seed}/{load}").shuffle(ways)
                yield Simulated(load, of_seed)
                yield from (Served(load, of_seed, way) for way in ways)


def requests_for(mix: str, seconds: Seconds, capacity: float) -> int:
    """How many requests the engine serves in that time."""
    drawn = requests(mix, 1000, seed=0)
    return math.ceil(seconds * capacity / (tokens_of(drawn) / len(drawn)))
