"""Least counter first: VTC without lift.

Source: VTC, section 5.1 (baseline of that name). A tenant's counter is all it has ever been served, over its
weight; the waiting tenant with the smallest goes first. A tenant that was away, or joins late, keeps the credit it
did not use and is served alone until it has caught up: tenants that stayed are not isolated from it.
"""

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.counters import Counters
from justitia_scheduling.policies.vtc import VTC


class LCF(VTC):
    """Its counters are never lifted."""

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self.counters = Counters(lift=False)
