"""When requests and runs arrive, and how much load that makes.

- evenly: one every 1/rate seconds, the first in the second interval at a drawn phase, as VTC's authors send them.
- Poisson: exponential gaps.
- Azure: consecutive requests of Azure's conversation or code trace (2023) from a drawn one on, round and round,
  stretched to the wanted mean rate, so that bursts stay. Only the requests of each second are kept; inside it an
  arrival is uniform.
- conversation: the intensity of 18 minutes of Mooncake's conversation trace (FAST'25) from a drawn moment on, scaled
  into the window. Its times are quantised to 3 s; inside these an arrival is uniform.

Offered load `u = sum(C) / (M * iterations in the arrival window)`: C in KV token-time, M KV tokens, the window from 0
to the last arrival. At u = 1 the engine holds as much as is asked of it, if its KV space is always full.
The iteration time of a full engine follows from its profile and what it serves. With the KV space always full, requests
that cost C altogether take `steps = sum(C) / M` iterations, or `sum(d) / max_requests` where that is more, and each
iteration decodes `sum(d) / steps` requests, reads M KV tokens and prefills `sum(p) / steps` prompt tokens; an engine
without a token budget prefills in steps of their own, one at each look at its queue at most. The engine time of all of
it over the window is its utilisation rho. Simulated engines under a full queue need up to 15 % longer, because their KV
space is never quite full.

Times in seconds, rates in 1/s.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from justitia_simulator.profiles import EngineProfile
from justitia_simulator.workload import WorkloadRequest, WorkloadRun
from justitia_vocabulary.units import Seconds, Tokens

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


def azure_arrivals(trace: str, rate: float, count: int, rng: random.Random) -> list[Seconds]:
    """`count` moments with the bursts of the trace, `conversation` or `code`, the last at `count / rate`."""
    counts = _azure_counts()[trace]
    second = rng.randrange(len(counts))
    moments: list[Seconds] = []
    now = 0.0
    while len(moments) < count:
        moments += sorted(now + rng.random() for _ in range(counts[second]))
        second = (second + 1) % len(counts)
        now += 1.0
    stretch = count / rate / moments[count - 1]
    return [moment * stretch for moment in moments[:count]]


@cache
def _azure_counts() -> dict[str, list[int]]:
    """Requests in each second of the traces."""
    counts: dict[str, list[int]] = json.loads(
        files("justitia_simulator").joinpath("data/azure-arrivals.json").read_text()
    )
    return counts


def full_engine_seconds(
    requests: Sequence[WorkloadRequest], profile: EngineProfile, *, cached: bool = False
) -> Seconds:
    """The time the engine takes for these requests while its KV space is full; with `cached`, it reads no prefix."""
    prompts = sum(r.prompt_tokens - (r.prefix_tokens if cached else 0) for r in requests)
    outputs = sum(r.output_tokens for r in requests)
    steps = max(sum(r.cost for r in requests) / profile.kv_tokens, outputs / (profile.max_requests or outputs))
    read = sum(r.cost for r in requests) / steps
    if profile.token_budget is None:
        looks = min(len(requests), steps / profile.decode_steps_per_admission)
        return looks * profile.timing.step(prompts / looks, 0, 0) + steps * profile.timing.step(
            0, outputs / steps, read
        )
    return steps * profile.timing.step(prompts / steps, outputs / steps, read)


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
