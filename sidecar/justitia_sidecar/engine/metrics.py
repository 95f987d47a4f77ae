"""Prometheus metrics of the scheduler inside the engine, from its snapshots.

The engine counts from its start, a policy that follows one that failed from its own. What is exported never falls: the
increases are added up here, and a count that is smaller than before, was missing, or is another process's has grown
from 0. Labels come from resources only: tenants; the empty one is of requests without a ticket.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from justitia_sidecar.engine.channel import EngineChannel

_COUNTERS = {
    "revisions": ("justitia_engine_revisions", "Keys that the policy has changed while something was open"),
    "evictions": ("justitia_engine_evictions", "Requests preempted for a head that did not fit"),
    "preemptions": ("justitia_engine_preemptions", "Requests that lost their KV space, evicted ones included"),
    "unticketed": ("justitia_engine_unticketed_sequences", "Sequences that came without a ticket"),
    "lateTickets": ("justitia_engine_late_tickets", "Sequences whose ticket came after them"),
    "forgottenTickets": ("justitia_engine_forgotten_tickets", "Tickets given up because no request came for them"),
    "failures": ("justitia_engine_policy_failures", "Policies dismissed because they raised an error"),
}
_GAUGES = {
    "gamma": ("justitia_engine_gamma", "Decay rate of the tail of completion times, 1/s, of a policy that has it"),
    "virtualTime": ("justitia_engine_virtual_time", "GPS virtual time, KV token-time per weight, since it began"),
    "longestDecision": ("justitia_engine_longest_decision_seconds", "Longest decision in the last snapshot's interval"),
    "longestTicketLag": ("justitia_channel_longest_lag_seconds", "Longest lag in the last snapshot's interval"),
    "generation": ("justitia_engine_config_generation", "Generation of the configuration that the engine orders by"),
}
_OTHER_COUNTERS = ("decisions", "decisionSeconds", "tickets", "ticketLag", "malformed", "droppedIn", "droppedOut")
_TENANT = "kvTokenTime"

Counts = Mapping[tuple[str, str], float]


class GrowingTotals:
    """Sums that do not fall, of counts that begin again. A count is named by a word and a label."""

    def __init__(self) -> None:
        self.totals: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._last: Counts = {}
        self._source = ""

    def observe(self, source: str, counts: Counts) -> None:
        """`source` is the process that counts."""
        if source != self._source:
            self._source, self._last = source, {}
        for name, count in counts.items():
            before = self._last.get(name, 0.0)
            self.totals[name] += count - before if count >= before else count
        self._last = counts


class EngineMetrics(Collector):
    """Hears the snapshots that come over the channel."""

    def __init__(self, channel: EngineChannel) -> None:
        self._channel = channel
        self._counted = GrowingTotals()
        channel.on_snapshot = self.observe

    def observe(self, instance: str, state: Mapping[str, Any]) -> None:
        counts = {(name, ""): float(state[name]) for name in (*_COUNTERS, *_OTHER_COUNTERS) if name in state}
        counts |= {(_TENANT, tenant): float(sum_) for tenant, sum_ in state.get(_TENANT, {}).items()}
        self._counted.observe(instance, counts)

    def collect(self) -> Iterable[Metric]:
        channel, total = self._channel, self._total
        for word, (name, description) in _COUNTERS.items():
            yield CounterMetricFamily(name, description, total(word))
        for word, (name, description) in _GAUGES.items():
            if channel.connected and word in channel.state:
                yield GaugeMetricFamily(name, description, channel.state[word])
        yield SummaryMetricFamily(
            "justitia_engine_decision_seconds",
            "Time to choose the next request, inside the engine",
            int(total("decisions")),
            total("decisionSeconds"),
        )
        yield SummaryMetricFamily(
            "justitia_channel_lag_seconds",
            "From the sending of a ticket to its being applied between two steps of the engine",
            int(total("tickets")),
            total("ticketLag"),
        )
        service = CounterMetricFamily(
            "justitia_tenant_kv_token_time", "KV token-time served, whatever the cost model", labels=["tenant"]
        )
        for (word, tenant), value in self._counted.totals.items():
            if word == _TENANT:
                service.add_metric([tenant], value)
        yield service
        yield _both_ways(
            "justitia_channel_dropped_messages",
            "Messages lost because their receiver did not keep up",
            total("droppedIn") + channel.dropped,
            total("droppedOut"),
        )
        yield _both_ways(
            "justitia_channel_malformed_messages",
            "Messages that were not understood",
            total("malformed"),
            channel.malformed,
        )
        yield GaugeMetricFamily(
            "justitia_engine_scheduler_connected", "1 if the engine's scheduler is connected", channel.connected
        )

    def _total(self, name: str) -> float:
        return self._counted.totals[name, ""]


def _both_ways(name: str, description: str, to_engine: float, from_engine: float) -> Metric:
    family = CounterMetricFamily(name, description, labels=["direction"])
    family.add_metric(["to_engine"], to_engine)
    family.add_metric(["from_engine"], from_engine)
    return family
