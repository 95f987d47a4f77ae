"""The gate's heaps answer what its definition says, whatever happened before."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from justitia_scheduling.policies.gate import Gate, Place
from justitia_vocabulary.units import TenantId
from support.examples import examples

TENANTS = [TenantId(f"t{i}") for i in range(6)]
BURSTS = (0.0, 5.0, 50.0)


class GateMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.first: dict[TenantId, tuple[Place, float]] = {}
        self.runs = 0

    @rule(tenant=st.sampled_from(TENANTS), key=st.floats(0, 100), slack=st.floats(0, 30))
    def wait_or_change(self, tenant: TenantId, key: float, slack: float) -> None:
        if tenant not in self.first:
            self.gate.counters.enqueue(tenant)
        self.runs += 1
        self.first[tenant] = ((key, self.runs), slack)
        self.gate.put_first(tenant, (key, self.runs), slack)

    @precondition(lambda self: self.first)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        tenant = data.draw(st.sampled_from(sorted(self.first)))
        del self.first[tenant]
        self.gate.drop(tenant)
        self.gate.counters.dequeue(tenant)

    @precondition(lambda self: self.first)
    @rule(data=st.data(), charge=st.floats(0, 40))
    def charge(self, data: st.DataObject, charge: float) -> None:
        self.gate.counters.charge(data.draw(st.sampled_from(sorted(self.first))), charge, 1.0)

    @invariant()
    def answers_are_those_of_the_definition(self) -> None:
        counters = self.gate.counters
        for burst in BURSTS:
            limit = min((counters[t] + min(burst, slack) for t, (_, slack) in self.first.items()), default=0.0)
            may = [t for t in self.first if counters[t] <= limit]
            assert self.gate.limit(burst) == limit
            assert self.gate.best(burst) == min(may, key=lambda t: self.first[t][0], default=None)


TestGate = GateMachine.TestCase
TestGate.settings = examples(150, stateful_step_count=50)
