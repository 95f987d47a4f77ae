"""Prometheus metrics. Labels come from resources only: tenants, applications, reasons; never ids or keys."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_PACE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_RUN_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_DECISION_SECONDS = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 1e-2)
_PREDICTION_SECONDS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 0.1)
_ERRORS = (0.1, 0.25, 0.5, 0.7, 1, 1.4, 2, 3, 5)
_APPLICATION = ("tenant", "application")
_OBJECTIVE = (*_APPLICATION, "metric", "percentile")


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter(
            "justitia_requests", "Requests over, by how they ended", (*_APPLICATION, "outcome"), registry=r
        )
        self.stalled = Counter(
            "justitia_stalled_readers", "Connections ended because their clients did not read", _APPLICATION, registry=r
        )
        self.refusals = Counter("justitia_refusals", "Requests refused, by reason", ("reason",), registry=r)
        self.prompt_tokens = Counter("justitia_prompt_tokens", "Prompt tokens served", _APPLICATION, registry=r)
        self.output_tokens = Counter("justitia_output_tokens", "Output tokens served", _APPLICATION, registry=r)
        self.estimated_tokens = Counter(
            "justitia_estimated_output_tokens",
            "Part of the output tokens that is an estimate: of requests that ended before their answer was seen",
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
        self.pace = Histogram(
            "justitia_time_per_output_token_seconds",
            "First token to last, for each token after the first",
            _APPLICATION,
            buckets=_PACE_SECONDS,
            registry=r,
        )
        self.run_completion = Histogram(
            "justitia_run_completion_seconds",
            "Arrival of a run to the last token of its last request",
            _APPLICATION,
            buckets=_RUN_SECONDS,
            registry=r,
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
            "justitia_unnoticed_runs", "Runs that nothing is learned from for want of time or memory", registry=r
        )
        self.learning_failures = Counter(
            "justitia_learning_failures",
            "Predictions, and reads and writes of samples and models",
            ("attempt",),
            registry=r,
        )
        self.slo_attained = Gauge(
            "justitia_slo_attained_ratio", "Values of the window that are within the bound", _OBJECTIVE, registry=r
        )
        self.slo_budget = Gauge(
            "justitia_slo_error_budget_ratio",
            "Of the misses that the objective allows in its window, what is left; below 0 it is missed",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_fast_burn = Gauge(
            "justitia_slo_fast_burn",
            "Error budget spent over a twelfth of the window; at 1 all of it goes in a window",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_slow_burn = Gauge(
            "justitia_slo_slow_burn", "Error budget spent over half of the window", _OBJECTIVE, registry=r
        )
        self.slo_alert = Gauge(
            "justitia_slo_alert",
            "1 while the budget is spent too fast, over a long and a short time",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_unattainable = Gauge(
            "justitia_slo_unattainable",
            "1 while it misses and no gamma that is allowed holds it",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_replicas = Gauge(
            "justitia_slo_replicas_needed",
            "How many engines the load of this one needs so that its objectives hold, an estimate; 0 if not known",
            registry=r,
        )
        self.gamma_floor = Gauge("justitia_gamma_floor", "Lower bound of gamma, 1/s, by the objectives", registry=r)
        self.gamma_ceiling = Gauge("justitia_gamma_ceiling", "Upper bound of gamma, 1/s, by the objectives", registry=r)
        self.step_seconds = Gauge(
            "justitia_step_time_coefficient", "Fitted step time in seconds per unit", ("per",), registry=r
        )
