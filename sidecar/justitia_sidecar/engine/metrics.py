"""Prometheus metrics of the plug-in, from its snapshots.

The plug-in counts from the start of its engine, and a policy from its own start. Exported counters never fall: the
increases are added up here, and a count that is smaller than before, was missing, or comes from another process is
taken to have grown from 0. Labels come from resources only: tenants; the empty one stands for requests without a
ticket.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from justitia_channel.messages import PlugInSnapshot
from justitia_sidecar.engine.channel import EngineChannel

_COUNTERS = {
    "revisions": ("justitia_engine_revisions", "Changes of an order key while the request or run was open"),
    "evictions": ("justitia_engine_evictions", "Requests that were preempted for a head that did not fit"),
    "preemptions": ("justitia_engine_preemptions", "Requests that lost their KV space, including evicted ones"),
    "contexts_taken_over": (
        "justitia_engine_contexts_taken_over",
        "Contexts that were kept in a pause until the run's next request had them",
    ),
    "contexts_given_up": (
        "justitia_engine_contexts_given_up",
        "Contexts that were kept in a pause and went before the run's next request, or with the run",
    ),
    "unticketed": ("justitia_engine_unticketed_sequences", "Sequences that ended without a ticket"),
    "late_tickets": ("justitia_engine_late_tickets", "Sequences whose ticket came after them"),
    "forgotten_tickets": (
        "justitia_engine_forgotten_tickets",
        "Tickets that were dropped because no request came for them",
    ),
    "failures": ("justitia_engine_policy_failures", "Policies that were dismissed because they raised an error"),
}
_OTHER_COUNTERS = ("decisions", "decision_seconds", "tickets", "ticket_lag", "malformed", "dropped_in", "dropped_out")
_TENANT = "kv_token_time"

Counts = Mapping[tuple[str, str], float]


class GrowingTotals:
    """Sums that never fall, of counts that may begin again. A word and a label name a count."""

    def __init__(self) -> None:
        self.totals: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._last: Counts = {}
        self._source = ""

    def observe(self, source: str, counts: Counts) -> None:
        """Add what has been counted since the last call. `source` is the process that counts."""
        if source != self._source:
            self._source, self._last = source, {}
        for name, count in counts.items():
            before = self._last.get(name, 0.0)
            self.totals[name] += count - before if count >= before else count
        self._last = counts


class EngineMetrics(Collector):
    """Collects the snapshots that come over the channel."""

    def __init__(self, channel: EngineChannel) -> None:
        self._channel = channel
        self._counted = GrowingTotals()
        channel.on_snapshot = self.observe

    def observe(self, instance: str, snapshot: PlugInSnapshot) -> None:
        counts = {(name, ""): float(getattr(snapshot, name)) for name in (*_COUNTERS, *_OTHER_COUNTERS)}
        counts |= {(_TENANT, tenant): served for tenant, served in snapshot.kv_token_time.items()}
        self._counted.observe(instance, counts)

    def collect(self) -> Iterable[Metric]:
        channel, total = self._channel, self._total
        for word, (name, description) in _COUNTERS.items():
            yield CounterMetricFamily(name, description, total(word))
        if channel.connected:
            yield from _gauges(channel.state)
        yield SummaryMetricFamily(
            "justitia_engine_decision_seconds",
            "Seconds to choose the next request, inside the engine",
            int(total("decisions")),
            total("decision_seconds"),
        )
        yield SummaryMetricFamily(
            "justitia_channel_lag_seconds",
            "Seconds from the sending of a ticket until it is applied, between two steps of the engine",
            int(total("tickets")),
            total("ticket_lag"),
        )
        service = CounterMetricFamily(
            "justitia_tenant_kv_token_time", "KV token-time that was served, whatever the cost model", labels=["tenant"]
        )
        for (word, tenant), value in self._counted.totals.items():
            if word == _TENANT:
                service.add_metric([tenant], value)
        yield service
        yield _both_ways(
            "justitia_channel_dropped_messages",
            "Messages that were lost because their receiver did not keep up",
            total("dropped_in") + channel.dropped,
            total("dropped_out"),
        )
        yield _both_ways(
            "justitia_channel_malformed_messages",
            "Messages that were not understood",
            total("malformed"),
            channel.malformed,
        )
        yield GaugeMetricFamily("justitia_plugin_connected", "1 if the plug-in is connected", channel.connected)

    def _total(self, name: str) -> float:
        return self._counted.totals[name, ""]


def _gauges(snapshot: PlugInSnapshot) -> Iterable[Metric]:
    gauge, policy = GaugeMetricFamily, snapshot.policy
    if policy.gamma is not None:
        about = "Gamma of a policy that has it: decay rate of the tail of completion times, in 1/s"
        yield gauge("justitia_engine_gamma", about, policy.gamma)
    if policy.virtual_time is not None:
        about = "GPS virtual time since the policy began, in KV token-time per weight"
        yield gauge("justitia_engine_virtual_time", about, policy.virtual_time)
    about = "KV tokens that are held for runs that pause between two requests; shared ones count for each"
    yield gauge("justitia_engine_kept_kv_tokens", about, snapshot.kept_tokens)
    about = "Longest decision in the interval of the last snapshot, in seconds"
    yield gauge("justitia_engine_longest_decision_seconds", about, snapshot.longest_decision)
    about = "Longest lag in the interval of the last snapshot, in seconds"
    yield gauge("justitia_channel_longest_lag_seconds", about, snapshot.longest_ticket_lag)
    about = "Generation of the configuration that the engine orders by"
    yield gauge("justitia_engine_config_generation", about, snapshot.generation)


def _both_ways(name: str, description: str, to_engine: float, from_engine: float) -> Metric:
    family = CounterMetricFamily(name, description, labels=["direction"])
    family.add_metric(["to_engine"], to_engine)
    family.add_metric(["from_engine"], from_engine)
    return family
