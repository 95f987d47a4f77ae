"""How far apart two tenants' services get while both wait, and how far they may.

Over any time in which tenants f and g both have requests waiting, what they are charged per unit of weight differs by

    |W_f / weight_f - W_g / weight_g| <= 2 B + U / weight_f + U / weight_g

B the gate's burst, U the most that the requests in the engine can be charged (`tiered.py`). Seen at samples: an
interval is a row of samples at which both wait, and its widest gap the range of the difference over it.
"""

from itertools import combinations

import numpy as np

from justitia_simulator.records import PolicyResults


def largest_part_of_bound(results: PolicyResults, burst: float, in_engine: float) -> float:
    """The widest gap as a part of its bound, over all pairs of tenants; 0 if no two ever wait together."""
    service: dict[str, list[float]] = {}
    queued: dict[str, list[int]] = {}
    for sample in results.service:
        service.setdefault(sample.tenant, []).append(sample.service)
        queued.setdefault(sample.tenant, []).append(sample.queued)
    largest = 0.0
    for f, g in combinations(service, 2):
        w_f, w_g = (results.weights.get(tenant, 1.0) for tenant in (f, g))
        difference = np.array(service[f]) / w_f - np.array(service[g]) / w_g
        both = (np.array(queued[f]) > 0) & (np.array(queued[g]) > 0)
        bound = 2 * burst + in_engine / w_f + in_engine / w_g
        # Where `both` changes, a row of samples begins or ends.
        for row, waiting in zip(np.split(difference, edges := _edges(both)), np.split(both, edges), strict=True):
            if waiting.size and waiting[0]:
                largest = max(largest, float(np.ptp(row)) / bound)
    return largest


def _edges(values: "np.typing.NDArray[np.bool_]") -> list[int]:
    return [int(i) + 1 for i in np.flatnonzero(values[1:] != values[:-1])]
