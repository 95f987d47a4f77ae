"""A host of tiered Justitia at which nothing takes time, for decisions that are checked by hand.

The cost model is KV token-time, so that a run of one request which reads p tokens and produces d is charged what it
costs: p d + d (d + 1) / 2.
"""

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

A, B = TenantId("a"), TenantId("b")
WIDE = 1e9
"""A burst, or a cost, beyond everything else here."""


class Host:
    """Tells a policy what happens. Each run has one request of the same name, unless more are asked for."""

    def __init__(self, policy: TieredJustitia, capacity: int | None = 10_000) -> None:
        self.policy = policy
        if capacity is not None:
            policy.set_capacity(capacity, 0)

    def run(self, name: str, tenant: TenantId = A, cost: float | None = None, prompt: int = 100) -> RequestId:
        """A run arrives with its first request, whose prompt was told, too."""
        told = None if cost is None else 0.0
        self.policy.run_arrived(Run(RunId(name), tenant, ApplicationId(f"app of {tenant}"), cost, told), 0)
        return self.ask(name, name, prompt)

    def ask(self, run: str, request: str, prompt: int = 100) -> RequestId:
        self.policy.request_arrived(Request(RequestId(request), RunId(run), prompt), 0)
        return RequestId(request)

    def serve(self, request: RequestId, produced: int) -> None:
        """The request is admitted, if it waits, and produces so many tokens."""
        if request not in self.policy.running:
            self.policy.admitted(request, 0)
        self.policy.stepped(Step([Progress(request, produced=produced)]), 0)

    def end(self, request: RequestId) -> None:
        self.policy.finished(request, 0)
        self.policy.run_ended(RunId(request), 0)


def tiered(**values: float) -> TieredJustitia:
    return TieredJustitia(KVTokenTimeCost(), **values)
