"""Who is overdue is what its definition says, whatever happened before; and an open gate starves nobody.

A tenant is overdue once H has passed since it began to wait and since its last admission, as of the last look.
"""

import math

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.policies.heartbeat import Heartbeat
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from support.examples import examples

TENANTS = [TenantId(f"t{i}") for i in range(4)]
INTERVAL = 10.0


class HeartbeatMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.heartbeat = Heartbeat(INTERVAL)
        self.now = 0.0
        self.silent_since: dict[TenantId, float] = {}
        self.looked = 0.0

    @rule(tenant=st.sampled_from(TENANTS))
    def begins_or_is_admitted(self, tenant: TenantId) -> None:
        self.silent_since[tenant] = self.now
        self.heartbeat.silent_since(tenant, self.now)

    @rule(tenant=st.sampled_from(TENANTS))
    def waits_no_more(self, tenant: TenantId) -> None:
        self.silent_since.pop(tenant, None)
        self.heartbeat.drop(tenant)

    @rule(by=st.floats(0, 15))
    def time_passes(self, by: float) -> None:
        before = self.overdue()
        self.now += by
        self.looked = self.now
        assert sorted(self.heartbeat.late(self.now)) == sorted(self.overdue() - before)

    def overdue(self) -> set[TenantId]:
        return {tenant for tenant, since in self.silent_since.items() if self.looked - since >= INTERVAL}

    @invariant()
    def ranks_are_those_of_the_definition(self) -> None:
        overdue = self.overdue()
        for tenant in TENANTS:
            expected = (0, self.silent_since[tenant]) if tenant in overdue else (1, 0.0)
            assert self.heartbeat.rank(tenant) == expected


TestHeartbeat = HeartbeatMachine.TestCase
TestHeartbeat.settings = examples(100, stateful_step_count=50)


def longest_silence(heartbeat: float, seconds: int = 1000) -> float:
    """Seconds without an admission of a tenant whose run is large, beside one that floods with small runs. An engine of
    one place serves a request each second; the gate is open.
    """
    policy = TieredJustitia(KVTokenTimeCost(), burst=math.inf, beta=math.inf, heartbeat=heartbeat)
    large, flood = TENANTS[:2]
    policy.run_arrived(Run(RunId("large"), large, ApplicationId("large"), 1e9), 0.0)
    for number in range(seconds):
        policy.request_arrived(Request(RequestId(f"large{number}"), RunId("large"), 1), 0.0)
    last, longest = 0, 0
    for now in range(seconds):
        run = RunId(f"small{now}")
        policy.run_arrived(Run(run, flood, ApplicationId("small"), 1.0), now)
        policy.request_arrived(Request(RequestId(run), run, 1), now)
        policy.time_passed(now)
        head = policy.head()
        assert head is not None
        tenant = policy.requests[head].tenant
        policy.admitted(head, now)
        policy.stepped(Step([Progress(head, 1, 1)], 1.0), now)
        policy.finished(head, now)
        if tenant == large:
            last = now
        longest = max(longest, now - last)
    return longest


@pytest.mark.parametrize("heartbeat", [5.0, 60.0])
def test_beside_a_flood_a_large_run_is_served_once_in_each_interval(heartbeat: float) -> None:
    assert longest_silence(heartbeat) <= heartbeat + 1


def test_without_a_heartbeat_an_open_gate_starves_it() -> None:
    assert longest_silence(math.inf) > 900
