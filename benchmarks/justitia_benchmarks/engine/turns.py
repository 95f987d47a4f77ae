"""Sessions of agents that take turns, in a size that a small model on a CPU serves in seconds, and how they are served.

They are those of :mod:`justitia_simulator.turns` with all lengths times `SCALE`; so is the KV space, compared with the
engine that `make bench-turns` serves whole ones on. So as many contexts fit, and a session takes as many steps of a
full engine, times `SCALE`. Pauses shrink with the time that the engine needs for the sessions. What differs is the
engine: to read a context again takes a CPU longer, compared with a step, than it takes a GPU.

Load and number of sessions are stated for a profile of the engine, which is measured once for a folder of results.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from justitia_benchmarks.engine.measure import Way
from justitia_benchmarks.engine.plan import enough
from justitia_benchmarks.engine.servers import WITH_BASELINES, Space, engine_arguments
from justitia_benchmarks.engine.workload import WEIGHTS
from justitia_simulator import turns
from justitia_simulator.profiles import EngineProfile, find_profile
from justitia_simulator.turns import ideal_seconds
from justitia_simulator.workload import WorkloadRun, WorkloadStage
from justitia_vocabulary.units import Seconds, Tokens

WHOLE_ONES = find_profile("a100-80g-llama3-8b")
SCALE = 0.03
LOAD = 2.0
BLOCK: Tokens = 32
SPACE = Space(blocks=round(WHOLE_ONES.kv_tokens * SCALE / BLOCK), block=BLOCK, longest=3072)
"""The longest context has 3,000 tokens."""
TENANTS = dict.fromkeys(WEIGHTS, 1.0)
"""They have as many sessions each, whatever their weights."""

ARGUMENTS = (*engine_arguments(SPACE), "--enable-prefix-caching")
WITHOUT_KEEPING = "--scheduler-cls=justitia_benchmarks.engine.scheduler.WithoutKeeping"
SCHEDULERS = {"stock": None, "engine": WITHOUT_KEEPING, "keeping": WITH_BASELINES}
"""What each of the three engines is started with besides. None: vLLM's own scheduler."""


@dataclass(frozen=True)
class TurnsWay:
    """`keep`: our scheduler keeps KV of sessions that pause."""

    way: Way
    keep: bool = False

    @property
    def name(self) -> str:
        return self.way.name + (", KV kept" if self.keep else "")

    @property
    def engine(self) -> str:
        """Which of :data:`SCHEDULERS` serves it."""
        return "keeping" if self.keep else self.way.where


TIERED = Way("tiered Justitia", "engine", "tiered-justitia")
STOCK = TurnsWay(Way("stock vLLM", "stock"))
FCFS = TurnsWay(Way("FCFS", "engine"))
VTC = TurnsWay(Way("VTC", "engine", "vtc"))
FORGETTING = TurnsWay(TIERED)
KEEPING = TurnsWay(TIERED, keep=True)
WAYS = (STOCK, FCFS, VTC, FORGETTING, KEEPING)


@dataclass(frozen=True)
class TurnsPlan:
    """At least so many sessions, which are work for so many seconds of an engine that reads nothing twice."""

    seeds: int
    sessions: int
    seconds: Seconds
    ways: Sequence[TurnsWay]


WHOLE = TurnsPlan(seeds=5, sessions=40, seconds=8.0, ways=WAYS)
QUICK = TurnsPlan(seeds=1, sessions=40, seconds=5.0, ways=(VTC, KEEPING))


@dataclass(frozen=True)
class TurnsCell:
    sessions: int
    seed: int
    way: TurnsWay

    @property
    def text(self) -> str:
        return f"turns, seed {self.seed}: {self.way.name}"

    @property
    def digest(self) -> str:
        """Names the cell's result, and seeds its prompts."""
        return hashlib.sha256(f"turns {SCALE} {LOAD} {self.sessions} {self.seed} {self.way}".encode()).hexdigest()


def cells(plan: TurnsPlan) -> Iterator[TurnsCell]:
    """In the order of measuring: the ways of a seed follow each other, in an order that it draws."""
    for seed in range(1, plan.seeds + 1):
        ways = list(plan.ways)
        random.Random(f"{seed}/turns").shuffle(ways)
        yield from (TurnsCell(plan.sessions, seed, way) for way in ways)


def sized(plan: TurnsPlan, profile: EngineProfile) -> TurnsPlan:
    """The plan for an engine of this profile."""

    def work(sessions: int) -> Seconds:
        return ideal_seconds(_drawn(sessions, 1, profile, SCALE), profile)

    return replace(plan, sessions=enough(plan.sessions, plan.seconds, work))


def draw(count: int, seed: int, profile: EngineProfile) -> list[WorkloadRun]:
    """`count` sessions, arriving at `LOAD` for an engine of this profile."""
    whole, small = _drawn(count, seed, WHOLE_ONES, 1.0), _drawn(count, seed, profile, SCALE)
    speed = ideal_seconds(small, profile) / ideal_seconds(whole, WHOLE_ONES)
    return [replace(run, stages=tuple(_paused(stage, speed) for stage in run.stages)) for run in small]


def _drawn(count: int, seed: int, profile: EngineProfile, scale: float) -> list[WorkloadRun]:
    return turns.turns(count, seed=seed, load=LOAD, profile=profile, tenants=TENANTS, scale=scale)


def _paused(stage: WorkloadStage, speed: float) -> WorkloadStage:
    return replace(stage, delay=stage.delay * speed)
