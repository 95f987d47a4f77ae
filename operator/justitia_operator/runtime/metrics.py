"""Prometheus metrics of the operator. Labels are kinds and closed sets, never names of objects."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Fault(StrEnum):
    """Why a plan was not carried out."""

    UNAVAILABLE = "Unavailable"
    """The API server did not answer, or something temporary was in the way. Retried."""
    OUTDATED = "Outdated"
    """Somebody changed the object meanwhile, or another operator may lead. Decided again."""
    REJECTED = "Rejected"
    """The API server refused an object. A condition shows it; it is not offered again until something changes."""
    FAILED = "Failed"
    """The operator itself failed at the resource. Its condition Reconciled and the log show it. Retried."""
    OBJECT_OVERRIDDEN = "ObjectOverridden"
    """Somebody added fields to an object of a pool. They were removed."""
    POD_NOT_REACHED = "PodNotReached"
    """A pod did not take its configuration from the operator."""
    POD_OVERRIDDEN = "PodOverridden"
    """A pod ran documents that the operator did not write. It was sent the right ones."""


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        ProcessCollector(registry=r)
        self.reconcile_seconds = Histogram(
            "justitia_operator_reconcile_seconds",
            "From the decision about a resource to the end of its writes",
            ("kind",),
            buckets=_SECONDS,
            registry=r,
        )
        self.faults = Counter(
            "justitia_operator_faults", "Plans that were not carried out, by cause", ("kind", "fault"), registry=r
        )
        self.writes = Counter(
            "justitia_operator_api_writes", "Objects changed at the API server", ("verb", "kind"), registry=r
        )
        self.events = Counter(
            "justitia_operator_events", "Events recorded about resources", ("kind", "reason"), registry=r
        )
        self.queued = Gauge("justitia_operator_queued", "Resources in the queue", registry=r)
        self.pods_behind = Gauge(
            "justitia_operator_pods_behind",
            "Pods that have not reported the latest configuration to be in effect",
            registry=r,
        )
        self.leading = Gauge("justitia_operator_leading", "1 while this operator holds the Lease", registry=r)
