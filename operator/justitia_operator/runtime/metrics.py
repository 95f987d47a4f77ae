"""Prometheus metrics of the operator. Labels are kinds and closed sets, never names of objects."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Fault(StrEnum):
    """What kept a plan from being carried out."""

    UNAVAILABLE = "Unavailable"
    """The API server did not answer, or failed for another passing reason. The operator tries again."""
    OUTDATED = "Outdated"
    """Somebody changed the object meanwhile, or another operator may lead. The operator decides again."""
    REJECTED = "Rejected"
    """The API server refused an object. A condition says so, and the object is left until something changes."""
    FAILED = "Failed"
    """The operator itself failed at the resource. The condition Reconciled and the log say so, and it tries again."""
    OBJECT_OVERRIDDEN = "ObjectOverridden"
    """Somebody added fields to an object of a pool. They were removed."""
    POD_NOT_REACHED = "PodNotReached"
    """A pod did not accept its configuration from the operator."""
    POD_OVERRIDDEN = "PodOverridden"
    """A pod ran documents that the operator did not write. It was sent those that were written."""


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        ProcessCollector(registry=r)
        self.reconcile_seconds = Histogram(
            "justitia_operator_reconcile_seconds",
            "Seconds from the decision about a resource to the end of its writes",
            ("kind",),
            buckets=_SECONDS,
            registry=r,
        )
        self.faults = Counter(
            "justitia_operator_faults",
            "Plans that could not be carried out, by what kept them from it",
            ("kind", "fault"),
            registry=r,
        )
        self.writes = Counter(
            "justitia_operator_api_writes", "Objects that were changed at the API server", ("verb", "kind"), registry=r
        )
        self.events = Counter(
            "justitia_operator_events", "Events about resources, by reason", ("kind", "reason"), registry=r
        )
        self.queued = Gauge("justitia_operator_queued", "Resources that are waiting to be reconciled", registry=r)
        self.pods_behind = Gauge(
            "justitia_operator_pods_behind",
            "Pods that have not confirmed the latest configuration",
            registry=r,
        )
        self.leading = Gauge("justitia_operator_leading", "1 while this operator holds the Lease", registry=r)
