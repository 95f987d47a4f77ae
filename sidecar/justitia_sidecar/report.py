"""What a sidecar tells about itself: status and gauges."""

from collections.abc import Iterable

from justitia_api.status import BoostStatus, PoolStatus, TenantStatus
from justitia_scheduling.model import TenantId
from justitia_sidecar.admission import TenantLoad
from justitia_sidecar.metrics import Metrics
from justitia_sidecar.objectives import Standing, objective_status
from justitia_sidecar.observation import WINDOW, RecentValues
from justitia_sidecar.service import Sidecar


def observe_status(sidecar: Sidecar) -> PoolStatus:
    """Raises a refusal with 503 while nothing is configured."""
    return _status(sidecar, sidecar.objectives.standings(sidecar.clock()))


def _status(sidecar: Sidecar, standings: Iterable[Standing]) -> PoolStatus:
    in_force = sidecar.configured()
    config, admission = in_force.config, in_force.admission
    policy, service = admission.policy, admission.service
    shares, entitled = sidecar.shares.shares(), sidecar.shares.entitled()
    names = [*(TenantId(t.name) for t in config.tenants)]
    names += [t for t in admission.load if t not in names and (admission.load[t].queued or admission.load[t].running)]
    tenants = []
    for name in names:
        load = admission.load.get(name, TenantLoad())
        tenants.append(
            TenantStatus(
                name=name,
                weight=policy.weight(name),
                service=service.get(name, 0.0),
                share=shares.get(name, 0.0) if shares else None,
                entitled_share=entitled.get(name, 0.0) if entitled else None,
                queued=load.queued,
                running=load.running,
                time_to_first_token=sidecar.first_token.get(name, RecentValues()).quantiles(),
            )
        )
    return PoolStatus(
        namespace=config.namespace,
        name=config.name,
        generation=config.generation,
        policy=config.scheduling.policy,
        cost_model=config.scheduling.cost_model,
        cost_unit=admission.unit,
        engine_ready=admission.engine.ready,
        draining=sidecar.draining,
        kv_capacity_tokens=admission.engine.kv_tokens,
        kv_reserved_tokens=admission.reserved,
        open_runs=len(admission.runs),
        window_seconds=WINDOW,
        gate=admission.gate,
        engine_scheduler=None if sidecar.channel is None else sidecar.channel.status,
        conditions=sidecar.conditions(),
        tenants=tuple(tenants),
        learning=sidecar.learning.status(config),
        objectives=tuple(map(objective_status, standings)),
        boost=sidecar.objectives.boost(sidecar.engine_state),
    )


def _set_objectives(m: Metrics, standings: Iterable[Standing], boost: BoostStatus | None) -> None:
    gauges = (m.slo_attained, m.slo_budget, m.slo_fast_burn, m.slo_slow_burn, m.slo_alert, m.slo_unattainable)
    for gauge in gauges:
        gauge.clear()
    for standing in standings:
        of, attained = standing.declared, standing.attainment
        labels = (of.tenant, of.application, of.config.metric.value, str(of.config.percentile))
        found = (
            attained.share,
            attained.budget,
            attained.fast_burn,
            attained.slow_burn,
            attained.alerted,
            standing.unattainable,
        )
        for gauge, value in zip(gauges, found, strict=True):
            gauge.labels(*labels).set(value)
    if boost is not None:
        m.gamma_floor.set(boost.floor)
        m.gamma_ceiling.set(boost.ceiling)
        m.slo_replicas.set(boost.needed or 0)


def set_gauges(sidecar: Sidecar) -> None:
    """Bring the gauges up to date for a scrape."""
    if sidecar.in_force is None:
        return
    standings = list(sidecar.objectives.standings(sidecar.clock()))
    status = _status(sidecar, standings)
    m = sidecar.metrics
    for tenant in status.tenants:
        m.service.labels(tenant.name).set(tenant.service)
        m.share.labels(tenant.name).set(tenant.share or 0.0)
        m.entitled.labels(tenant.name).set(tenant.entitled_share or 0.0)
        m.queued.labels(tenant.name).set(tenant.queued)
        m.running.labels(tenant.name).set(tenant.running)
    m.kv_capacity.set(status.kv_capacity_tokens or 0)
    m.kv_reserved.set(status.kv_reserved_tokens)
    m.open_runs.set(status.open_runs)
    m.engine_ready.set(status.engine_ready)
    m.engine_hangs.set(sidecar.hang_watch.hangs)
    _set_objectives(m, standings, status.boost)
    t = sidecar.in_force.admission.fit.step_time
    m.step_seconds.labels("step").set(t.per_step)
    m.step_seconds.labels("token").set(t.per_token)
    m.step_seconds.labels("kv_token").set(t.per_kv_token)
