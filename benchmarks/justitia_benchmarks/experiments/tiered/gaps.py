"""How far apart two tenants' services get while both wait, as a part of how far they may.

Over any time in which tenants f and g both have requests waiting, what they are charged per unit of weight differs by

    |W_f / weight_f - W_g / weight_g| <= 2 B + U / weight_f + U / weight_g

B the gate's burst, U the most that the requests in the engine can be charged (`tiered.py`).
"""

from justitia_simulator.records import PolicyResults
from justitia_simulator.shares import widest_gaps


def largest_part_of_bound(results: PolicyResults, burst: float, in_engine: float) -> float:
    """The widest gap as a part of its bound, over all pairs of tenants; 0 if no two ever wait together."""
    weight = results.weights
    parts = (
        gap / (2 * burst + in_engine / weight.get(f, 1.0) + in_engine / weight.get(g, 1.0))
        for (f, g), gap in widest_gaps(results).items()
    )
    return max(parts, default=0.0)
