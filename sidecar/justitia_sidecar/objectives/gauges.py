"""Gauges of how objectives stand in this pod, and of the gamma that follows."""

from collections.abc import Iterable

from justitia_api.config import ApplicationConfig, ServiceLevelObjective
from justitia_api.status import BoostStatus
from justitia_scheduling.objectives.attainment import Attainment
from justitia_sidecar.metrics import SidecarMetrics


def set_objective_gauges(
    m: SidecarMetrics,
    objectives: Iterable[tuple[ApplicationConfig, ServiceLevelObjective, Attainment]],
    boost: BoostStatus | None,
) -> None:
    """Bring the gauges up to date. `boost` is None where the engine reports no gamma."""
    gauges = (m.slo_attained, m.slo_budget, m.slo_fast_burn, m.slo_slow_burn, m.slo_alert, m.slo_unattainable)
    for gauge in gauges:
        gauge.clear()
    for application, objective, attained in objectives:
        labels = (application.tenant, application.id, objective.metric.value, str(objective.percentile))
        found = (
            attained.share,
            attained.budget,
            attained.fast_burn,
            attained.slow_burn,
            attained.alerted,
            attained.unattainable,
        )
        for gauge, value in zip(gauges, found, strict=True):
            gauge.labels(*labels).set(value)
    if boost is not None:
        m.gamma_floor.set(boost.floor)
        m.gamma_ceiling.set(boost.ceiling)
        m.slo_replicas.set(boost.needed or 0)
