"""A preemptive single server (M/G/1) that serves the smallest key: where queueing theory knows the answers.

A job's key is `key(arrival, size, attained)`, computed when it arrives and when its attained service crosses
quantum * 2^i (never again with an infinite quantum). Preemption costs nothing. Times are in seconds.
"""

import heapq
import math
import random
from collections.abc import Callable, Sequence

Job = tuple[float, float]
Key = Callable[[float, float, float], float]


def poisson_jobs(rate: float, size: Callable[[random.Random], float], count: int, seed: int) -> list[Job]:
    """(arrival, size) of `count` jobs."""
    source = random.Random(seed)
    jobs, now = [], 0.0
    for _ in range(count):
        now += source.expovariate(rate)
        jobs.append((now, size(source)))
    return jobs


def response_times(jobs: Sequence[Job], key: Key, quantum: float = math.inf) -> list[float]:
    """From arrival to end, of each job."""
    ends = [0.0] * len(jobs)
    queue: list[tuple[float, int, float]] = []
    now, upcoming = 0.0, 0
    while queue or upcoming < len(jobs):
        if not queue:
            now = jobs[upcoming][0]
        while upcoming < len(jobs) and jobs[upcoming][0] <= now:
            heapq.heappush(queue, (key(*jobs[upcoming], 0.0), upcoming, 0.0))
            upcoming += 1
        phi, job, attained = queue[0]
        arrival, size = jobs[job]
        threshold = quantum * 2.0 ** (math.floor(math.log2(attained / quantum)) + 1) if attained >= quantum else quantum
        target = min(size, threshold)
        until = now + target - attained
        if upcoming < len(jobs) and jobs[upcoming][0] < until:
            attained += jobs[upcoming][0] - now
            now = jobs[upcoming][0]
            heapq.heapreplace(queue, (phi, job, attained))
        elif target == size:
            now = until
            ends[job] = now
            heapq.heappop(queue)
        else:
            now = until
            heapq.heapreplace(queue, (key(arrival, size, target), job, target))
    return [end - arrival for end, (arrival, _) in zip(ends, jobs, strict=True)]


def quantile(times: Sequence[float], p: float) -> float:
    return sorted(times)[math.ceil(p * len(times)) - 1]
