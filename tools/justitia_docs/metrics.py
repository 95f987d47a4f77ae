"""Reference of metrics, from the registries that they are counted in."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from justitia_channel.messages import PlugInSnapshot
from justitia_docs.documented import documented
from justitia_docs.markdown import cell, code, prose, table
from justitia_operator.runtime.metrics import Fault
from justitia_operator.runtime.metrics import Metrics as OperatorMetrics
from justitia_scheduling.core.report import PolicyReport
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.metrics import EngineMetrics
from justitia_sidecar.metrics import SidecarMetrics
from justitia_vocabulary.units import TenantId

OPENING = """\
# Metrics

In Prometheus' text format. Labels come from resources and closed sets only: tenants, applications, reasons, never ids
or keys. The chart's `metrics` values add monitors, alert rules and dashboards for them.
"""
SIDECAR = """\
## Sidecar

At `/metrics` on the sidecar's admin port, 8002. Seconds are counted at the sidecar: from the moment at which a request
is there to the moment at which a token comes from the engine.
"""
ENGINE = """\
## Plug-in

With `enforcement: Engine`, also at the sidecar's `/metrics`. The plug-in inside vLLM reports once a second while it
works. Counters never fall, although the plug-in counts again when its engine starts again.
"""
OPERATOR = """\
## Operator

At `/metrics` on the operator's port `http`, beside the usual figures of its process (`process_*`).
"""
FAULTS = "Values of the label `fault`:\n"
HEAD = ("metric", "type", "labels", "meaning")


def build_page() -> str:
    return "\n".join(
        [
            OPENING,
            SIDECAR,
            table(HEAD, _rows(_of(SidecarMetrics().registry))),
            ENGINE,
            table(HEAD, _rows(_reported())),
            OPERATOR,
            table(HEAD, _rows(_of(OperatorMetrics().registry))),
            FAULTS,
            table(("fault", "meaning"), ((code(name), prose(text)) for name, text in documented(Fault).items())),
        ]
    )


def _of(registry: CollectorRegistry) -> Iterator[Metric]:
    """The registry's own metrics, each with a series for every label, as if something had been counted."""
    for metric in vars(registry)["_collector_to_names"]:
        if isinstance(metric, MetricWrapperBase):
            labels: tuple[str, ...] = metric._labelnames
            if labels:
                metric.labels(*labels)
            yield from metric.collect()


class _Connected(EngineChannel):
    """A channel to a plug-in whose policy reports everything that a policy can."""

    connected = True

    def __init__(self) -> None:
        super().__init__()
        self.state = PlugInSnapshot(
            kv_token_time={TenantId("tenant"): 0.0}, policy=PolicyReport(gamma=0.0, virtual_time=0.0)
        )


def _reported() -> Iterable[Metric]:
    channel = _Connected()
    metrics = EngineMetrics(channel)
    metrics.observe("plug-in", channel.state)
    return metrics.collect()


def _rows(families: Iterable[Metric]) -> Iterator[tuple[str, ...]]:
    for family in families:
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
        name = family.name + ("_total" if family.type == "counter" else "")
        yield code(name), family.type, ", ".join(code(label) for label in labels), cell(family.documentation)
