"""How far apart two tenants' services get while both wait, as a part of how far they may.

Over any time in which tenants f and g both have requests waiting, what they are charged per unit of weight differs by

    |W_f / weight_f - W_g / weight_g| <= 2 s + U / weight_f + U / weight_g

s the largest slack that a waiting tenant allowed, U the most that the requests in the engine can be charged
(`tiered.py`): both as the policy reports them.
"""

from justitia_scheduling.core.policy import Policy
from justitia_simulator.inference import Inference
from justitia_simulator.records import PolicyResults
from justitia_simulator.shares import widest_gaps
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import Seconds


class WidestBound:
    """The largest slack and the largest U that the policy reports while it is served. A watcher."""

    period: Seconds = 10.0

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.slack = self.in_engine = 0.0

    def arrived(self, request: Inference, now: Seconds) -> None: ...

    def first_token(self, request: Inference, now: Seconds) -> None: ...

    def finished(self, request: Inference, now: Seconds) -> None: ...

    def run_finished(self, run: WorkloadRun, now: Seconds) -> None: ...

    def look(self, now: Seconds) -> None:
        report = self._policy.report()
        self.slack = max(self.slack, report.slack or 0.0)
        self.in_engine = max(self.in_engine, report.in_engine or 0.0)


def largest_part_of_bound(results: PolicyResults, bound: WidestBound) -> float:
    """The widest gap as a part of its bound, over all pairs of tenants; 0 if no two ever wait together."""
    weight = results.weights
    u = bound.in_engine
    parts = (
        gap / (2 * bound.slack + u / weight.get(f, 1.0) + u / weight.get(g, 1.0))
        for (f, g), gap in widest_gaps(results).items()
    )
    return max(parts, default=0.0)
