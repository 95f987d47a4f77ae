"""When requests and runs arrive, and how much load that makes.

- evenly: one every 1/rate seconds, the first in the second interval at a drawn phase, as VTC's authors send them.
- Poisson: exponential gaps.
- conversation: the intensity of 18 minutes of Mooncake's conversation trace (FAST'25) from a drawn moment on, scaled
  into the window. Its times are quantised to 3 s; inside these an arrival is uniform.

Offered load `u = sum(C) / (M * iterations in the arrival window)`: C in KV token-time, M KV tokens, the window from 0
to the last arrival. At u = 1 the engine holds as much as is asked of it, if its KV space is always full.
Times in seconds, rates in 1/s.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from justitia_scheduling.model import Seconds, Tokens
from justitia_simulator.workload import WorkloadRun

BUCKET: Seconds = 3.0
SHAPE_BUCKETS = 360


def even_arrivals(rate: float, start: Seconds, duration: Seconds, rng: random.Random) -> list[Seconds]:
    """`round(rate * duration)` moments, 1/rate apart."""
    phase = 1.0 + rng.random()
    return [start + (phase + i) / rate for i in range(round(rate * duration))]


def poisson_arrivals(rate: float, count: int, rng: random.Random) -> list[Seconds]:
    """`count` moments of a Poisson process."""
    moments, now = [], 0.0
    for _ in range(count):
        now += rng.expovariate(rate)
        moments.append(now)
    return moments


def conversation_arrivals(count: int, window: Seconds, rng: random.Random) -> list[Seconds]:
    """`count` moments in [0, window), in order."""
    counts = _conversation_counts()
    first = rng.randrange(len(counts) - SHAPE_BUCKETS + 1)
    buckets = rng.choices(range(SHAPE_BUCKETS), counts[first : first + SHAPE_BUCKETS], k=count)
    return sorted((bucket + rng.random()) * window / SHAPE_BUCKETS for bucket in buckets)


@cache
def _conversation_counts() -> list[int]:
    """Requests in each 3 s of the trace."""
    counts: list[int] = json.loads(files("justitia_simulator").joinpath("data/conversation-arrivals.json").read_text())
    return counts


def offered_load(workload: Sequence[WorkloadRun], kv_tokens: Tokens, iteration_seconds: Seconds) -> float:
    """The load u of the workload. Raises ValueError if all of it arrives at 0."""
    window = max(run.arrival for run in workload)
    if window <= 0:
        raise ValueError("offered load needs an arrival window: every run arrives at 0")
    return sum(run.cost for run in workload) * iteration_seconds / (kv_tokens * window)


def scaled_to_load(
    workload: Sequence[WorkloadRun], load: float, kv_tokens: Tokens, iteration_seconds: Seconds
) -> list[WorkloadRun]:
    """The same runs with their arrivals stretched so that the offered load is `load`."""
    factor = offered_load(workload, kv_tokens, iteration_seconds) / load
    return [replace(run, arrival=run.arrival * factor) for run in workload]
