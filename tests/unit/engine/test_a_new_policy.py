"""A new policy is a module and a line in the registry, with a knob, a report and reasons to wait as well."""

from collections.abc import Mapping
from typing import ClassVar

import pytest

from justitia_channel.messages import Configure, Ticket
from justitia_engine.explain import QueueView, explain
from justitia_engine.host import EngineHost, SequenceName
from justitia_scheduling.core.cost import CostModel, KVTokenTimeCost
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.policies import registry
from justitia_scheduling.policies.fcfs import FCFS
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from justitia_vocabulary.waiting import WaitingReason

GENEROUS = 5.0


class Patient(FCFS):
    """Serves by arrival. Its burst is a knob, and it says that tenants are gated once that is 0."""

    knobs: ClassVar[frozenset[Knob]] = frozenset({Knob.BURST})

    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self.burst = GENEROUS

    def tune(self, values: Mapping[Knob, float]) -> None:
        super().tune(values)
        self.burst = values.get(Knob.BURST, GENEROUS)

    def report(self) -> PolicyReport:
        return PolicyReport(burst=self.burst)

    def why_waits(self, request: OpenRequest) -> WaitingReason:
        return super().why_waits(request) if self.burst else WaitingReason.TENANT_GATED


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> EngineHost:
    monkeypatch.setitem(registry.POLICIES, "Patient", Patient)
    made = EngineHost(FCFS(KVTokenTimeCost()), 1000, 0.0, lambda sequence: 0)
    made.configure(configuration(), 0.0)
    return made


def configuration(**knobs: float) -> Configure:
    return Configure(1, "patient", "kv-token-time", {"gold": 1.0}, knobs)


def reasons(of: EngineHost) -> list[WaitingReason]:
    return [row.reason for row in explain(of, QueueView(WaitingReason.ENGINE_BUSY, []), 10, 1.0).requests]


def test_its_knob_is_set_and_goes_back_to_its_default(host: EngineHost) -> None:
    assert host.snapshot().policy == PolicyReport(burst=GENEROUS)
    host.configure(configuration(burst=2.0), 1.0)
    assert host.snapshot().policy == PolicyReport(burst=2.0)
    host.configure(configuration(), 2.0)
    assert host.snapshot().policy == PolicyReport(burst=GENEROUS)


def test_a_knob_that_it_has_not_is_refused_by_both_names(host: EngineHost) -> None:
    with pytest.raises(ValueError, match="Patient has no hysteresis"):
        host.configure(configuration(hysteresis=1.0, burst=2.0), 1.0)
    assert host.snapshot().policy == PolicyReport(burst=GENEROUS)


def test_it_says_why_a_request_waits(host: EngineHost) -> None:
    for key in "ab":
        host.ticket(Ticket(key, TenantId("gold"), ApplicationId("ns/app"), RunId(key)), 0.0)
        host.queued(SequenceName(RequestId(key), key, 0), 10, 0.0)
    assert reasons(host) == ["EngineBusy", "BehindOthers"]
    host.configure(configuration(burst=0.0), 1.0)
    assert reasons(host) == ["EngineBusy", "TenantGated"]
