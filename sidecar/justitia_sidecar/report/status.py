"""What the sidecar reports of itself: its status, and gauges for a scrape."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from justitia_api.conditions import Condition
from justitia_api.status import ApplicationReport, PoolStatus, SharingStatus, TenantReport
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.books import TenantLoad
from justitia_sidecar.admission.observation import WINDOW, ShareWindow
from justitia_sidecar.current import InEffect
from justitia_sidecar.engine.hang import HangWatch
from justitia_sidecar.learning.status import learning_status
from justitia_sidecar.objectives.gauges import set_objective_gauges
from justitia_sidecar.report.policy_condition import PolicyCondition
from justitia_sidecar.request.parts import Parts
from justitia_vocabulary.policies import WITHOUT_WEIGHTS
from justitia_vocabulary.units import ApplicationId, TenantId

OF_A_PIECE = 100
"""Tenants or applications whose gauges are set in one go."""


@dataclass(frozen=True, slots=True)
class SidecarReport:
    parts: Parts
    shares: ShareWindow[TenantId]
    application_shares: ShareWindow[ApplicationId]
    hangs: HangWatch
    policy_condition: PolicyCondition
    _labels: set[tuple[str, str]] = field(default_factory=set)
    """Tenant and application, of the applications that have gauges."""

    def status(self) -> PoolStatus:
        """The status. Raises a refusal with 503 while nothing is configured."""
        parts = self.parts
        in_effect = parts.current.configured()
        config, admission = in_effect.config, in_effect.admission
        books, service = admission.books, admission.service
        shares, entitled = self.shares.shares(), self._entitled(in_effect)
        tenants = []
        for name in _tenants(in_effect):
            load = books.load.get(name, TenantLoad())
            tenants.append(
                TenantReport(
                    name=name,
                    weight=books.weight(name),
                    service=service.get(name, 0.0),
                    share=shares.get(name, 0.0) if shares else None,
                    entitled_share=entitled.get(name, 0.0) if entitled else None,
                    queued=load.queued,
                    running=load.running,
                    time_to_first_token=parts.first_tokens.quantiles(name),
                )
            )
        channel, learner = parts.order.engine_channel, parts.learner
        return PoolStatus(
            namespace=config.namespace,
            name=config.name,
            generation=config.generation,
            documents=parts.current.documents,
            not_understood=parts.current.not_understood,
            policy=config.scheduling.policy,
            cost_model=config.scheduling.cost_model,
            cost_unit=admission.unit,
            engine_ready=admission.engine.ready,
            draining=parts.open.draining,
            kv_capacity_tokens=admission.engine.kv_tokens,
            kv_held_tokens=admission.held,
            open_runs=len(books.runs),
            window_seconds=WINDOW,
            gate=admission.gate,
            plug_in=None if channel is None else channel.status,
            sharing=self._sharing(in_effect),
            limits_over=parts.order.limits.scope(parts.clock()),
            conditions=self.conditions(),
            tenants=tuple(tenants),
            applications=tuple(self._applications(in_effect)),
            learning=learning_status(config, learner.applications, learner.models),
            objectives=tuple(parts.objectives.counts(parts.clock())),
            boost=parts.objectives.boost(parts.order.policy_report),
        )

    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of the configuration in effect."""
        channel, in_effect = self.parts.order.engine_channel, self.parts.current.in_effect
        if channel is None or in_effect is None:
            return ()
        generation = in_effect.config.generation
        return (self.policy_condition.observe(channel.status, generation, channel.unsupported),)

    def set_gauges(self) -> Iterator[None]:
        """Bring the gauges up to date for a scrape. Others may work at each pause."""
        in_effect, m = self.parts.current.in_effect, self.parts.metrics
        if in_effect is None:
            return
        admission = in_effect.admission
        shares = self.shares.shares()
        yield
        entitled, weighted = self._entitled(in_effect), _has_weights(in_effect)
        if not weighted:
            m.entitled.clear()
        yield
        service, loads = admission.service, admission.books.load
        for number, name in enumerate(_tenants(in_effect)):
            load = loads.get(name, TenantLoad())
            m.service.labels(name).set(service.get(name, 0.0))
            m.share.labels(name).set(shares.get(name, 0.0))
            if weighted:
                m.entitled.labels(name).set(entitled.get(name, 0.0))
            m.queued.labels(name).set(load.queued)
            m.running.labels(name).set(load.running)
            if number % OF_A_PIECE == 0:
                yield
        yield from self._set_application_gauges(in_effect)
        m.kv_capacity.set(admission.engine.kv_tokens or 0)
        m.kv_held.set(admission.held)
        m.open_runs.set(len(admission.books.runs))
        m.engine_ready.set(admission.engine.ready)
        m.engine_hangs.set(self.hangs.hangs)
        objectives = self.parts.objectives
        boost = objectives.boost(self.parts.order.policy_report)
        set_objective_gauges(m, objectives.attained(self.parts.clock()), boost)
        m.step_seconds.clear()
        if (t := admission.step_time) is not None:
            m.step_seconds.labels("step").set(t.per_step)
            m.step_seconds.labels("token").set(t.per_token)
            m.step_seconds.labels("kv_token").set(t.per_kv_token)

    def _sharing(self, in_effect: InEffect) -> SharingStatus | None:
        sharing = self.parts.order.sharing
        if in_effect.config.valkey is None or sharing is None:
            return None
        return sharing.status(self.parts.clock())

    def _applications(self, in_effect: InEffect) -> Iterator[ApplicationReport]:
        """What each application of the configuration has had."""
        service, recent = in_effect.admission.application_service, self.application_shares.recent()
        declared = in_effect.config.applications
        of_tenants: defaultdict[str, float] = defaultdict(float)
        for application in declared:
            of_tenants[application.tenant] += recent.get(application.id, 0.0)
        for application in declared:
            yield ApplicationReport(
                namespace=application.namespace,
                name=application.name,
                tenant=application.tenant,
                weight=application.weight,
                priority=application.priority,
                service=service.get(application.id, 0.0),
                recent=recent.get(application.id, 0.0),
                tenant_recent=of_tenants[application.tenant],
            )

    def _set_application_gauges(self, in_effect: InEffect) -> Iterator[None]:
        """Bring them up to date. Others may work at each pause."""
        m, declared = self.parts.metrics, in_effect.config.applications
        for gone in self._labels - {(each.tenant, each.id) for each in declared}:
            self._labels.remove(gone)
            m.application_service.remove(*gone)
            m.application_share.remove(*gone)
        for number, application in enumerate(self._applications(in_effect)):
            labels = (application.tenant, f"{application.namespace}/{application.name}")
            self._labels.add(labels)
            m.application_service.labels(*labels).set(application.service)
            m.application_share.labels(*labels).set(application.share or 0.0)
            if number % OF_A_PIECE == 0:
                yield

    def restart(self, admission: Admission | None = None) -> None:
        """Begin shares again, because service is in another unit or counted by another process: from what the admission
        has counted on.
        """
        if admission is None:
            self.shares.restart()
            self.application_shares.restart()
        else:
            self.shares.restart(admission.service)
            self.application_shares.restart(admission.application_service)

    def _entitled(self, in_effect: InEffect) -> dict[TenantId, float]:
        """The entitled shares. Empty under a policy without weights."""
        return self.shares.entitled() if _has_weights(in_effect) else {}


def _tenants(in_effect: InEffect) -> list[TenantId]:
    """The tenants of the configuration, and others that have requests here."""
    declared = dict.fromkeys(TenantId(t.name) for t in in_effect.config.tenants)
    load = in_effect.admission.books.load
    return [*declared, *(t for t in load if t not in declared and (load[t].queued or load[t].running))]


def _has_weights(in_effect: InEffect) -> bool:
    return in_effect.config.scheduling.policy not in WITHOUT_WEIGHTS
