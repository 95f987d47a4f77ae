"""What the pool's other engines did, for the policy of this one; and what this one delivered, for theirs.

What others have served tenants comes as totals that only grow and are taken by maximum, so a message that is lost or
repeated changes nothing. What was delivered to a run comes as it grows: a lost message puts the run a little early.
"""

from collections.abc import Mapping

from justitia_channel.messages import Delivered, Elsewhere
from justitia_scheduling.core.model import Run
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.pool_service import raise_to
from justitia_vocabulary.units import Seconds, TenantId


class OtherEngines:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._unit = policy.cost_model.unit
        self._told: dict[TenantId, float] = {}

    def moved_to(self, policy: Policy) -> None:
        """Another policy is in effect, whose counters lack what others have served."""
        told, self._told = self._told, {}
        unit, self._policy, self._unit = self._unit, policy, policy.cost_model.unit
        self._served(unit, told)

    def share(self, pooled: bool) -> None:
        """Whether other engines share the pool."""
        if not pooled:
            self._policy.undisclosed = None
        elif self._policy.undisclosed is None:
            self._policy.undisclosed = {}

    def hear(self, told: Elsewhere, now: Seconds) -> None:
        policy = self._policy
        for each in told.opened:
            if each.run not in policy.runs:
                policy.run_arrived(Run(each.run, each.tenant, each.application, each.run_cost), now)
        self._served(told.unit, told.service)
        policy.delivered_elsewhere(told.delivered, now)

    def delivered(self) -> Delivered | None:
        """What this engine has delivered since it was asked last; None if nothing, or nobody shares the pool."""
        grown = self._policy.undisclosed
        if not grown:
            return None
        self._policy.undisclosed = {}
        return Delivered(grown)

    def forget(self) -> None:
        """Another sidecar counts from now on, from its own beginning."""
        self._told.clear()

    def _served(self, unit: str, totals: Mapping[TenantId, float]) -> None:
        """Take totals by maximum. Those in another unit are of another cost model, and passed over."""
        if unit != self._unit:
            return
        for tenant, more in raise_to(self._told, totals).items():
            self._policy.served_elsewhere(tenant, more)
