"""What PromQL asks for, held against what the operator and the sidecars expose."""

from collections import defaultdict
from collections.abc import Mapping

import promql_parser
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from justitia_channel.messages import VERSION, Hello, PlugInSnapshot
from justitia_channel.wire import encode
from justitia_operator.runtime.metrics import Metrics as OperatorMetrics
from justitia_scheduling.core.report import PolicyReport
from justitia_sidecar.engine import metrics as engine_metrics
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.metrics import SidecarMetrics
from justitia_vocabulary.units import TenantId
from support.listening_channel import SilentConnection

TARGET_LABELS = {"namespace", "pod"}
"""A PodMonitor gives them to every series."""
POOL_LABELS = TARGET_LABELS | {"justitia_dev_pool"}
"""podTargetLabels of the pools' PodMonitor add the last one."""

Labels = Mapping[str, set[str]]
"""Labels by the name of a series."""


def exposed() -> Labels:
    """The labels of all series that are scraped: the operator's, and a sidecar's whose engine keeps the order."""
    operator, sidecar = OperatorMetrics(), SidecarMetrics()
    channel = EngineChannel()
    sidecar.registry.register(engine_metrics.EngineMetrics(channel))
    report = PolicyReport(gamma=1.0, virtual_time=1.0)
    snapshot = PlugInSnapshot(generation=1, kv_token_time={TenantId("tenant"): 1.0}, policy=report)
    channel.joined(SilentConnection())
    for message in (Hello(VERSION, "engine"), snapshot):
        channel.receive(encode(message))
    _touch(operator)
    _touch(sidecar)
    return _series(operator.registry, TARGET_LABELS) | _series(sidecar.registry, POOL_LABELS)


def _touch(metrics: object) -> None:
    """A metric with labels has series once some labels were counted."""
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase) and metric._labelnames:
            metric.labels(*metric._labelnames)


def _series(registry: CollectorRegistry, target: set[str]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for sample in (sample for family in registry.collect() for sample in family.samples):
        found[sample.name] |= target | sample.labels.keys()
    return dict(found)


def unknown(expression: str, there: Labels) -> set[str]:
    """Series that the expression asks for and that are not there, and labels that those it asks for do not have. Raises
    ValueError where it is no PromQL.
    """
    selectors: list[promql_parser.VectorSelector] = []
    grouped: set[str] = set()

    def see(part: promql_parser.Expr) -> None:
        match part:
            case promql_parser.VectorSelector():
                selectors.append(part)
            case promql_parser.MatrixSelector():
                selectors.append(part.vector_selector)
            case promql_parser.AggregateExpr() if part.modifier is not None:
                grouped.update(part.modifier.labels)
            case promql_parser.BinaryExpr() if part.modifier is not None and part.modifier.matching is not None:
                grouped.update(part.modifier.matching.labels)

    promql_parser.walk(promql_parser.parse(expression), see)
    found = {selector.name or "": {matcher.name for matcher in selector.matchers.matchers} for selector in selectors}
    missing = {f"{name}{{{label}}}" for name, asked in found.items() for label in asked - there.get(name, asked)}
    known = set().union(*(there.get(name, set()) for name in found))
    return missing | found.keys() - there.keys() | grouped - known
