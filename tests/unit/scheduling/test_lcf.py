"""Least counter first."""

from justitia_scheduling.baselines.lcf import LCF
from justitia_scheduling.core.cost import WeightedTokens
from justitia_scheduling.policies.vtc import VTC
from justitia_vocabulary.units import TenantId
from support.script import Script


def test_a_newcomer_keeps_its_credit_where_vtc_lifts_it() -> None:
    for policy, counter in ((LCF(WeightedTokens()), 0), (VTC(WeightedTokens()), 500)):
        host = Script(policy)
        host.ask_alone(tenant="old", prompt=500)
        host.ask_alone(tenant="old")
        host.admit()
        host.ask_alone(tenant="late")
        assert policy.counters[TenantId("late")] == counter
