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

RHO = 0.99


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
    """Each mix with so many seeds, requests arriving for about so many seconds. In fewer than 20 no queue forms: the
    longest requests run for as long, and every order is the same.
    """

    mixes: Sequence[str]
    seeds: int
    seconds: Seconds


WHOLE_TAIL = TailPlan(("heavy-70", "light-70"), seeds=5, seconds=25.0)
QUICK_TAIL = TailPlan(("heavy-70", "light-70"), seeds=1, seconds=20.0)


class Kept:
    """What is measured at a time."""

    @property
    def digest(self) -> str:
        """Names the result, and seeds the prompts."""
        return hashlib.sha256(f"{self} {RHO}".encode()).hexdigest()


@dataclass(frozen=True)
class Speed(Kept):
    """How fast the engine is: tokens a second of each mix, and its step time."""

    mixes: Sequence[str]
    text = "the engine's speed"


@dataclass(frozen=True)
class Tuning(Kept):
    """The fixed gamma with the least P99 on the simulated engine, for as many requests that are not measured."""

    mix: str
    requests: int

    @property
    def text(self) -> str:
        return f"{self.mix}: gamma"


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
    """A seed's requests in all ways on the simulated engine, at the load, of that one's own capacity."""

    capacity: Capacity

    @property
    def text(self) -> str:
        return f"{self.capacity.mix}, seed {self.capacity.seed}: simulated"


@dataclass(frozen=True)
class Served(Kept):
    """A seed's requests at the load, served by the engine in one way."""

    capacity: Capacity
    way: TailWay

    @property
    def text(self) -> str:
        return f"{self.capacity.mix}, seed {self.capacity.seed}: {self.way.name}"


TailCell = Tuning | Capacity | Simulated | Served


def tail_cells(plan: TailPlan, capacity: Mapping[str, float]) -> Iterator[TailCell]:
    """In the order of measuring, for an engine with this capacity for each mix, in tokens a second."""
    counts = {mix: requests_for(mix, plan.seconds, capacity[mix]) for mix in plan.mixes}
    yield from (Tuning(mix, count) for mix, count in counts.items())
    for seed in range(1, plan.seeds + 1):
        for mix, count in counts.items():
            of_seed = Capacity(mix, count, seed)
            ways = list(SERVED_WAYS)
            random.Random(f"{seed}/{mix}").shuffle(ways)
            yield Simulated(of_seed)
            yield of_seed
            yield from (Served(of_seed, way) for way in ways)


def requests_for(mix: str, seconds: Seconds, capacity: float) -> int:
    """How many requests arrive in that time at the load."""
    drawn = requests(mix, 1000, seed=0)
    return math.ceil(seconds * RHO * capacity / (tokens_of(drawn) / len(drawn)))
