"""What a sidecar tells about itself: status and gauges."""

from collections.abc import Iterable, Iterator

from justitia_api.status import BoostStatus, PoolStatus, TenantStatus
from justitia_sidecar.admission.admission import TenantLoad
from justitia_sidecar.learning.status import learning_status
from justitia_sidecar.metrics import Metrics
from justitia_sidecar.objectives.objectives import Standing, objective_status
from justitia_sidecar.report.observation import WINDOW, RecentValues
from justitia_sidecar.service import InForce, Sidecar
from justitia_vocabulary.policies import WITHOUT_WEIGHTS
from justitia_vocabulary.units import TenantId

TENANTS_OF_A_PIECE = 100


def observe_status(sidecar: Sidecar) -> PoolStatus:
    """Raises a refusal with 503 while nothing is configured."""
    return _status(sidecar, sidecar.objectives.standings(sidecar.clock()))


def _status(sidecar: Sidecar, standings: Iterable[Standing]) -> PoolStatus:
    in_force = sidecar.configured()
    config, admission = in_force.config, in_force.admission
    policy, service = admission.policy, admission.service
    shares, entitled = sidecar.shares.shares(), _entitled(sidecar, in_force)
    tenants = []
    for name in _tenants(in_force):
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
        documents=sidecar.documents,
        not_understood=sidecar.not_understood,
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
        engine_scheduler=None if sidecar.engine_channel is None else sidecar.engine_channel.status,
        conditions=sidecar.conditions(),
        tenants=tuple(tenants),
        learning=learning_status(config, sidecar.learning.applications, sidecar.learning.models),
        objectives=tuple(map(objective_status, standings)),
        boost=sidecar.objectives.boost(sidecar.policy_in_engine),
    )


def _tenants(in_force: InForce) -> list[TenantId]:
    """Those of the configuration, and others that have requests here."""
    declared = dict.fromkeys(TenantId(t.name) for t in in_force.config.tenants)
    load = in_force.admission.load
    return [*declared, *(t for t in load if t not in declared and (load[t].queued or load[t].running))]


def _has_weights(in_force: InForce) -> bool:
    return in_force.config.scheduling.policy not in WITHOUT_WEIGHTS


def _entitled(sidecar: Sidecar, in_force: InForce) -> dict[TenantId, float]:
    """What each tenant is entitled to; nobody to anything under a policy that knows no weights."""
    return sidecar.shares.entitled() if _has_weights(in_force) else {}


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


def set_gauges(sidecar: Sidecar) -> Iterator[None]:
    """Bring the gauges up to date for a scrape. Others may work at each pause."""
    if sidecar.in_force is None:
        return
    in_force = sidecar.in_force
    admission = in_force.admission
    m = sidecar.metrics
    shares = sidecar.shares.shares()
    yield
    entitled = _entitled(sidecar, in_force)
    weighted = _has_weights(in_force)
    if not weighted:
        m.entitled.clear()
    yield
    service = admission.service
    for number, name in enumerate(_tenants(in_force)):
        load = admission.load.get(name, TenantLoad())
        m.service.labels(name).set(service.get(name, 0.0))
        m.share.labels(name).set(shares.get(name, 0.0))
        if weighted:
            m.entitled.labels(name).set(entitled.get(name, 0.0))
        m.queued.labels(name).set(load.queued)
        m.running.labels(name).set(load.running)
        if number % TENANTS_OF_A_PIECE == 0:
            yield
    m.kv_capacity.set(admission.engine.kv_tokens or 0)
    m.kv_reserved.set(admission.reserved)
    m.open_runs.set(len(admission.runs))
    m.engine_ready.set(admission.engine.ready)
    m.engine_hangs.set(sidecar.hang_watch.hangs)
    objectives = sidecar.objectives
    _set_objectives(m, objectives.standings(sidecar.clock()), objectives.boost(sidecar.policy_in_engine))
    t = admission.fit.step_time
    m.step_seconds.labels("step").set(t.per_step)
    m.step_seconds.labels("token").set(t.per_token)
    m.step_seconds.labels("kv_token").set(t.per_kv_token)
