"""Metrics of the plug-in: nothing falls, whatever starts again."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from justitia_channel.messages import VERSION, Hello, PlugInSnapshot
from justitia_channel.wire import encode
from justitia_scheduling.core.report import PolicyReport
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.metrics import EngineMetrics, GrowingTotals
from justitia_vocabulary.units import TenantId
from support.listening_channel import SilentConnection

STATE = PlugInSnapshot(
    decisions=10,
    decision_seconds=0.5,
    longest_decision=0.2,
    revisions=2,
    evictions=1,
    contexts_taken_over=12,
    contexts_given_up=13,
    kept_tokens=4096,
    preemptions=3,
    unticketed=4,
    late_tickets=5,
    forgotten_tickets=6,
    tickets=8,
    ticket_lag=0.25,
    longest_ticket_lag=0.125,
    failures=1,
    malformed=7,
    dropped_in=9,
    dropped_out=11,
    generation=3,
    kv_token_time={TenantId("gold"): 50.0, TenantId(""): 2.0},
    policy=PolicyReport(gamma=0.5, virtual_time=100.0),
)


class Exported:
    def __init__(self) -> None:
        self.channel = EngineChannel()
        self.registry = CollectorRegistry()
        self.registry.register(EngineMetrics(self.channel))

    def says(self, instance: str, told: PlugInSnapshot) -> None:
        for message in (Hello(VERSION, instance), told):
            self.channel.receive(encode(message))

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def test_a_snapshot_becomes_metrics() -> None:
    exported = Exported()
    exported.channel.dropped, exported.channel.malformed = 1, 2
    exported.says("one", STATE)
    value = exported.value
    assert value("justitia_engine_decision_seconds_count") == 10
    assert value("justitia_engine_decision_seconds_sum") == 0.5
    assert value("justitia_engine_revisions_total") == 2
    assert value("justitia_engine_evictions_total") == 1
    assert value("justitia_engine_preemptions_total") == 3
    assert value("justitia_engine_contexts_taken_over_total") == 12
    assert value("justitia_engine_contexts_given_up_total") == 13
    assert value("justitia_engine_unticketed_sequences_total") == 4
    assert value("justitia_engine_late_tickets_total") == 5
    assert value("justitia_engine_forgotten_tickets_total") == 6
    assert value("justitia_engine_policy_failures_total") == 1
    assert value("justitia_channel_lag_seconds_count") == 8
    assert value("justitia_channel_lag_seconds_sum") == 0.25
    assert value("justitia_channel_dropped_messages_total", direction="to_engine") == 10
    assert value("justitia_channel_dropped_messages_total", direction="from_engine") == 11
    assert value("justitia_channel_malformed_messages_total", direction="to_engine") == 7
    assert value("justitia_channel_malformed_messages_total", direction="from_engine") == 2
    assert value("justitia_tenant_kv_token_time_total", tenant="gold") == 50
    assert value("justitia_tenant_kv_token_time_total", tenant="") == 2


def test_another_engine_process_adds_to_what_was_counted() -> None:
    exported = Exported()
    exported.says("one", STATE)
    exported.says("two", replace(STATE, decisions=12, kv_token_time={TenantId("gold"): 60.0}))
    assert exported.value("justitia_engine_decision_seconds_count") == 22
    assert exported.value("justitia_tenant_kv_token_time_total", tenant="gold") == 110
    assert exported.value("justitia_tenant_kv_token_time_total", tenant="") == 2


def test_a_policy_that_follows_one_that_failed_is_counted_from_the_start() -> None:
    exported = Exported()
    exported.says("one", STATE)
    exported.says("one", PlugInSnapshot(decisions=11, failures=2))
    exported.says("one", replace(STATE, decisions=12, failures=2))
    assert exported.value("justitia_engine_decision_seconds_count") == 12
    assert exported.value("justitia_engine_revisions_total") == 4
    assert exported.value("justitia_tenant_kv_token_time_total", tenant="gold") == 100


def test_gauges_are_there_while_the_engine_is() -> None:
    exported = Exported()
    assert exported.value("justitia_plugin_connected") == 0
    exported.says("one", STATE)
    assert exported.value("justitia_engine_gamma") is None
    exported.channel.joined(SilentConnection())
    exported.says("one", STATE)
    assert exported.value("justitia_plugin_connected") == 1
    assert exported.value("justitia_engine_gamma") == 0.5
    assert exported.value("justitia_engine_virtual_time") == 100
    assert exported.value("justitia_engine_longest_decision_seconds") == 0.2
    assert exported.value("justitia_channel_longest_lag_seconds") == 0.125
    assert exported.value("justitia_engine_kept_kv_tokens") == 4096
    assert exported.value("justitia_engine_config_generation") == 3
    assert b"justitia_engine_gamma" in generate_latest(exported.registry)


@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), st.dictionaries(st.sampled_from("ab"), st.integers(0, 9)))))
def test_totals_never_fall_and_grow_by_what_one_process_counted(told: list[tuple[str, dict[str, int]]]) -> None:
    grown = GrowingTotals()
    seen: list[float] = [0.0]
    for source, counts in told:
        grown.observe(source, {(name, ""): float(count) for name, count in counts.items()})
        seen.append(grown.totals["a", ""])
    assert all(before <= after for before, after in pairwise(seen))
    if {source for source, _ in told} == {"one"} and all("a" in counts for _, counts in told):
        values = [counts["a"] for _, counts in told]
        if values == sorted(values):
            assert seen[-1] == values[-1]
