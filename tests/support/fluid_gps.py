"""An oracle: generalised processor sharing by following real time from event to event. It knows no virtual time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Arrival:
    at: float
    cost: float
    weight: float = 1.0


def gps_finishes(arrivals: Sequence[Arrival], rate: float) -> list[float]:
    """When each run finishes if the server is shared between the active ones by weight, at every instant."""
    left = [a.cost for a in arrivals]
    finish = [math.inf] * len(arrivals)
    t = 0.0
    while math.inf in finish:
        active = [i for i, a in enumerate(arrivals) if a.at <= t and finish[i] == math.inf]
        upcoming = min((a.at for a in arrivals if a.at > t), default=math.inf)
        if not active:
            t = upcoming
            continue
        per_weight = rate / sum(arrivals[j].weight for j in active)
        first = min(active, key=lambda i: left[i] / arrivals[i].weight)
        finishes_at = t + left[first] / (per_weight * arrivals[first].weight)
        until = min(finishes_at, upcoming)
        for i in active:
            left[i] -= per_weight * arrivals[i].weight * (until - t)
        t = until
        for i in active:
            if left[i] <= 1e-9 * arrivals[i].cost or (i == first and finishes_at <= upcoming):
                finish[i] = t
    return finish
