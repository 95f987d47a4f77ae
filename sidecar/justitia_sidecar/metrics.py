"""Prometheus metrics. Labels come from resources only: tenants, applications, reasons; never ids or keys."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_DECISION_SECONDS = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 1e-2)
_PREDICTION_SECONDS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 0.1)
_ERRORS = (0.1, 0.25, 0.5, 0.7, 1, 1.4, 2, 3, 5)
_APPLICATION = ("tenant", "application")


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter(
            "justitia_requests", "Requests over, by how they ended", (*_APPLICATION, "outcome"), registry=r
        )
        self.refusals = Counter("justitia_refusals", "Requests refused, by reason", ("reason",), registry=r)
        self.prompt_tokens = Counter("justitia_prompt_tokens", "Prompt tokens served", _APPLICATION, registry=r)
        self.output_tokens = Counter("justitia_output_tokens", "Output tokens served", _APPLICATION, registry=r)
        self.estimated_tokens = Counter(
            "justitia_estimated_output_tokens",
            "Part of the output tokens that is an estimate: non-streamed requests that were aborted",
            _APPLICATION,
            registry=r,
        )
        self.service = Gauge(
            "justitia_tenant_service", "Charged since the start, in the cost model's unit", ("tenant",), registry=r
        )
        self.share = Gauge("justitia_tenant_share", "Share of service over the window", ("tenant",), registry=r)
        self.entitled = Gauge(
            "justitia_tenant_entitled_share",
            "Share by weight among the active over the window",
            ("tenant",),
            registry=r,
        )
        self.queued = Gauge("justitia_queued_requests", "Requests that wait", ("tenant",), registry=r)
        self.running = Gauge("justitia_running_requests", "Requests in the engine", ("tenant",), registry=r)
        self.queue_delay = Histogram(
            "justitia_queue_seconds", "Arrival to admission", _APPLICATION, buckets=_SECONDS, registry=r
        )
        self.first_token = Histogram(
            "justitia_time_to_first_token_seconds", "Arrival to first token", _APPLICATION, buckets=_SECONDS, registry=r
        )
        self.completion = Histogram(
            "justitia_completion_seconds", "Arrival to last token", _APPLICATION, buckets=_SECONDS, registry=r
        )
        self.decision = Histogram(
            "justitia_admission_decision_seconds", "Time of one admission pass", buckets=_DECISION_SECONDS, registry=r
        )
        self.kv_capacity = Gauge("justitia_kv_capacity_tokens", "KV space of the engine", registry=r)
        self.kv_reserved = Gauge("justitia_kv_reserved_tokens", "KV space reserved by admitted requests", registry=r)
        self.open_runs = Gauge("justitia_open_runs", "Runs that have not ended", registry=r)
        self.engine_ready = Gauge("justitia_engine_ready", "1 if the engine answers", registry=r)
        self.engine_hangs = Gauge("justitia_engine_hangs", "1 while the engine has work and makes no step", registry=r)
        self.generation = Gauge("justitia_config_generation", "Generation of the configuration in force", registry=r)
        self.reload_failures = Counter(
            "justitia_config_reload_failures", "Documents that were not put in force", ("document",), registry=r
        )
        self.prediction = Histogram(
            "justitia_prediction_seconds",
            "To make a run's features and predict its cost",
            buckets=_PREDICTION_SECONDS,
            registry=r,
        )
        self.prediction_error = Histogram(
            "justitia_prediction_error",
            "|ln(predicted / cost)| of finished runs: 0.7 is off by a factor of two",
            (*_APPLICATION, "model"),
            buckets=_ERRORS,
            registry=r,
        )
        self.unnoticed_runs = Counter(
            "justitia_unnoticed_runs", "Runs that nothing is learned from for want of time", registry=r
        )
        self.learning_failures = Counter(
            "justitia_learning_failures",
            "Predictions, and reads and writes of samples and models",
            ("attempt",),
            registry=r,
        )
        self.step_seconds = Gauge(
            "justitia_step_time_coefficient", "Fitted step time in seconds per unit", ("per",), registry=r
        )
