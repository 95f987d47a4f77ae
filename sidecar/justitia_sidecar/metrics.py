"""Prometheus metrics. Labels come from resources only: tenants, applications, reasons; never ids or keys."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_PACE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_RUN_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_DECISION_SECONDS = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 1e-2)
_PREDICTION_SECONDS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2.5e-2, 0.1)
_EXCHANGE_SECONDS = (5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 0.5, 2.5)
_ERRORS = (0.1, 0.25, 0.5, 0.7, 1, 1.4, 2, 3, 5)
_APPLICATION = ("tenant", "application")
_OBJECTIVE = (*_APPLICATION, "metric", "percentile")


class SidecarMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter(
            "justitia_requests", "Requests that are over, by how they ended", (*_APPLICATION, "outcome"), registry=r
        )
        self.passed_on = Counter(
            "justitia_passed_on",
            "Requests that were passed on to another engine of the pool, by what became of it",
            ("outcome",),
            registry=r,
        )
        self.picks = Counter(
            "justitia_picks",
            "Requests that gateways asked about, by where they were sent: the pod here, elsewhere, or nowhere",
            ("where",),
            registry=r,
        )
        self.stalled = Counter(
            "justitia_stalled_readers",
            "Connections that were reset because their clients did not read",
            _APPLICATION,
            registry=r,
        )
        self.refusals = Counter(
            "justitia_refusals", "Requests that were refused, by the code of the refusal", ("reason",), registry=r
        )
        self.beyond_objective = Counter(
            "justitia_beyond_objective",
            "Requests that were expected to miss an objective when they arrived, by what became of them",
            (*_APPLICATION, "action"),
            registry=r,
        )
        self.prompt_tokens = Counter("justitia_prompt_tokens", "Prompt tokens that were read", _APPLICATION, registry=r)
        self.output_tokens = Counter(
            "justitia_output_tokens", "Output tokens that were produced", _APPLICATION, registry=r
        )
        self.estimated_tokens = Counter(
            "justitia_estimated_output_tokens",
            "Part of the output tokens that is estimated, for requests that ended before their answer was seen",
            _APPLICATION,
            registry=r,
        )
        self.service = Gauge(
            "justitia_tenant_service",
            "Service charged since the start, in the unit of the cost model",
            ("tenant",),
            registry=r,
        )
        self.share = Gauge("justitia_tenant_share", "Share of the service over the window", ("tenant",), registry=r)
        self.application_service = Gauge(
            "justitia_application_service",
            "Service charged since the start, in the unit of the cost model",
            _APPLICATION,
            registry=r,
        )
        self.application_share = Gauge(
            "justitia_application_share",
            "Share of its tenant's service over the window",
            _APPLICATION,
            registry=r,
        )
        self.entitled = Gauge(
            "justitia_tenant_entitled_share",
            "Share that the tenant is entitled to by weight, among active tenants, over the window",
            ("tenant",),
            registry=r,
        )
        self.queued = Gauge("justitia_queued_requests", "Requests that are waiting", ("tenant",), registry=r)
        self.running = Gauge("justitia_running_requests", "Requests that the engine works on", ("tenant",), registry=r)
        self.queue_delay = Histogram(
            "justitia_queue_seconds", "Seconds from arrival to admission", _APPLICATION, buckets=_SECONDS, registry=r
        )
        self.first_token = Histogram(
            "justitia_time_to_first_token_seconds",
            "Seconds from arrival to the first token",
            _APPLICATION,
            buckets=_SECONDS,
            registry=r,
        )
        self.completion = Histogram(
            "justitia_completion_seconds",
            "Seconds from arrival to the last token",
            _APPLICATION,
            buckets=_SECONDS,
            registry=r,
        )
        self.pace = Histogram(
            "justitia_time_per_output_token_seconds",
            "Seconds from the first token to the last, for each token after the first",
            _APPLICATION,
            buckets=_PACE_SECONDS,
            registry=r,
        )
        self.run_completion = Histogram(
            "justitia_run_completion_seconds",
            "Seconds from the arrival of a run to the last token of its last request",
            _APPLICATION,
            buckets=_RUN_SECONDS,
            registry=r,
        )
        self.decision = Histogram(
            "justitia_admission_decision_seconds",
            "Seconds that one admission pass takes",
            buckets=_DECISION_SECONDS,
            registry=r,
        )
        self.kv_capacity = Gauge("justitia_kv_capacity_tokens", "KV space of the engine, in tokens", registry=r)
        self.kv_held = Gauge(
            "justitia_kv_held_tokens",
            "KV tokens of the requests that the engine has, as counted here; 0 if the order is kept inside the engine",
            registry=r,
        )
        self.open_runs = Gauge("justitia_open_runs", "Runs that have not ended", registry=r)
        self.engine_ready = Gauge("justitia_engine_ready", "1 if the engine answers", registry=r)
        self.engine_hangs = Gauge("justitia_engine_hangs", "1 while the engine has work and makes no step", registry=r)
        self.pool_sharing = Gauge(
            "justitia_pool_sharing",
            "1 while the engine knows what the pool's others serve",
            registry=r,
        )
        self.pool_others = Gauge("justitia_pool_other_sidecars", "Sidecars of the pool that are heard of", registry=r)
        self.pool_exchange = Histogram(
            "justitia_pool_exchange_seconds",
            "Seconds of an exchange with the pool's Valkey",
            buckets=_EXCHANGE_SECONDS,
            registry=r,
        )
        self.pool_exchange_failures = Counter(
            "justitia_pool_exchange_failures", "Exchanges with the pool's Valkey that failed", registry=r
        )
        self.generation = Gauge("justitia_config_generation", "Generation of the configuration in effect", registry=r)
        self.reload_failures = Counter(
            "justitia_config_reload_failures",
            "Documents that did not take effect because they were invalid",
            ("document",),
            registry=r,
        )
        self.prediction = Histogram(
            "justitia_prediction_seconds",
            "Seconds to make a run's features and predict its cost",
            buckets=_PREDICTION_SECONDS,
            registry=r,
        )
        self.prediction_error = Histogram(
            "justitia_prediction_error",
            "|ln(predicted / cost)| of finished runs; 0.7 is off by a factor of two",
            (*_APPLICATION, "model"),
            buckets=_ERRORS,
            registry=r,
        )
        self.unnoticed_runs = Counter(
            "justitia_unnoticed_runs", "Runs from which nothing is learned, for lack of time or memory", registry=r
        )
        self.learning_failures = Counter(
            "justitia_learning_failures",
            "Failed predictions, and failed reads and writes of samples and models",
            ("attempt",),
            registry=r,
        )
        self.slo_attained = Gauge(
            "justitia_slo_attained_ratio",
            "Ratio of the values in the window that are within the bound",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_budget = Gauge(
            "justitia_slo_error_budget_ratio",
            "What is left of the misses that the objective allows in its window; negative if it is missed",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_fast_burn = Gauge(
            "justitia_slo_fast_burn",
            "How fast the error budget is spent, over a twelfth of the window; at 1, a window spends all of it",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_slow_burn = Gauge(
            "justitia_slo_slow_burn",
            "How fast the error budget is spent, over half of the window; at 1, a window spends all of it",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_alert = Gauge(
            "justitia_slo_alert",
            "1 while the error budget is spent too fast, both over a long and over a short time",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_unattainable = Gauge(
            "justitia_slo_unattainable",
            "1 while the objective is missed and no gamma that is allowed meets it",
            _OBJECTIVE,
            registry=r,
        )
        self.slo_replicas = Gauge(
            "justitia_slo_replicas_needed",
            "Engines that the load of this one needs to meet its objectives, estimated; 0 if not known",
            registry=r,
        )
        self.gamma_floor = Gauge(
            "justitia_gamma_floor", "Lower bound of gamma that the objectives set, in 1/s", registry=r
        )
        self.gamma_ceiling = Gauge(
            "justitia_gamma_ceiling", "Upper bound of gamma that the objectives set, in 1/s", registry=r
        )
        self.step_seconds = Gauge(
            "justitia_step_time_coefficient", "Fitted step time, in seconds per unit", ("per",), registry=r
        )
