"""What the sidecar reports of itself: its status, and gauges for a scrape."""

from collections.abc import Iterator
from dataclasses import dataclass

from justitia_api.conditions import Condition
from justitia_api.status import PoolStatus, TenantReport
from justitia_sidecar.admission.books import TenantLoad
from justitia_sidecar.admission.observation import WINDOW, ShareWindow
from justitia_sidecar.current import InEffect
from justitia_sidecar.engine.hang import HangWatch
from justitia_sidecar.learning.status import learning_status
from justitia_sidecar.objectives.gauges import set_objective_gauges
from justitia_sidecar.report.policy_condition import PolicyCondition
from justitia_sidecar.request.parts import Parts
from justitia_vocabulary.policies import WITHOUT_WEIGHTS
from justitia_vocabulary.units import TenantId

TENANTS_OF_A_PIECE = 100


@dataclass(frozen=True, slots=True)
class SidecarReport:
    parts: Parts
    shares: ShareWindow
    hangs: HangWatch
    policy_condition: PolicyCondition

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
            conditions=self.conditions(),
            tenants=tuple(tenants),
            learning=learning_status(config, learner.applications, learner.models),
            objectives=tuple(parts.objectives.counts(parts.clock())),
            boost=parts.objectives.boost(parts.order.policy_in_engine),
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
            if number % TENANTS_OF_A_PIECE == 0:
                yield
        m.kv_capacity.set(admission.engine.kv_tokens or 0)
        m.kv_held.set(admission.held)
        m.open_runs.set(len(admission.books.runs))
        m.engine_ready.set(admission.engine.ready)
        m.engine_hangs.set(self.hangs.hangs)
        objectives = self.parts.objectives
        boost = objectives.boost(self.parts.order.policy_in_engine)
        set_objective_gauges(m, objectives.attained(self.parts.clock()), boost)
        m.step_seconds.clear()
        if (t := admission.step_time) is not None:
            m.step_seconds.labels("step").set(t.per_step)
            m.step_seconds.labels("token").set(t.per_token)
            m.step_seconds.labels("kv_token").set(t.per_kv_token)

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
