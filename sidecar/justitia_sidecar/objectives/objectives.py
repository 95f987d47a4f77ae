"""The objectives of a pool's applications: what is seen of them, and gamma from them where the pool asks for that.

Values are counted from the moment a request, or a run, arrives. One that ends without a value (its client went away,
the engine failed, it waited too long) counts as missed if it was older than the bound by then, and not at all else:
it would be in the same place had it gone on. So does one that is still open. A run without open requests may be over:
it counts when it is known to be.

Moments are seconds since 1970 by a clock that does not jump: that of requests, set once when the process starts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from justitia_api.config import BoostConfig, BoostMode, ObjectiveConfig, PoolConfig
from justitia_api.status import BoostStatus, Counted, ObjectiveStatus
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.objectives.attainment import Attainment, attainment, counted
from justitia_scheduling.objectives.cohorts import Cohort
from justitia_scheduling.objectives.objective import Objective
from justitia_scheduling.objectives.observations import ObjectiveId, Observations
from justitia_scheduling.objectives.slo import PERIOD, Controller, Decision
from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.admission.ticket import Ticket
from justitia_sidecar.request.recognition import application_id
from justitia_vocabulary.objectives import MetricName, ObjectiveState
from justitia_vocabulary.policies import HIGHEST_GAMMA, LOWEST_GAMMA
from justitia_vocabulary.units import ApplicationId, Seconds, TenantId

_WATCHED = "watched "

log = structlog.get_logger("justitia.sidecar")


@dataclass(frozen=True, slots=True)
class Declared:
    """An objective as an application declares it."""

    tenant: TenantId
    application: ApplicationId
    config: ObjectiveConfig
    objective: Objective

    @property
    def id(self) -> ObjectiveId:
        return f"{self.application} {self.config.metric} P{self.config.percentile}"


@dataclass(frozen=True, slots=True)
class Standing:
    """How an objective stands in this pod. `opposed`: unattainable because another asks for the opposite."""

    declared: Declared
    counted: tuple[Cohort, ...]
    unattainable: bool
    opposed: bool

    @property
    def attainment(self) -> Attainment:
        return attainment(self.declared.objective.percentile, self.counted)


class Objectives:
    """Of the pool in force. `epoch`: the time of day at which the clock of requests was 0."""

    def __init__(self, epoch: Seconds) -> None:
        self._epoch = epoch
        self._seen = Observations({})
        self._boost: BoostConfig | None = None
        self._controller: Controller | None = None
        self._decision: Decision | None = None
        self._looked: Seconds | None = None
        self._saved: Mapping[str, Any] | None = None
        self.declared: dict[ObjectiveId, Declared] = {}
        self._of: Mapping[tuple[ApplicationId, MetricName], list[Declared]] = {}

    def configure(self, config: PoolConfig) -> None:
        """What was counted of objectives that stay is kept, and so is gamma."""
        weights = {tenant.name: tenant.weight for tenant in config.tenants}
        every = [
            Declared(TenantId(a.tenant), application_id(a), o, _objective(o, weights.get(a.tenant, 1.0)))
            for a in config.applications
            for o in a.objectives
        ]
        self.declared = {each.id: each for each in every}
        by_metric: defaultdict[tuple[ApplicationId, MetricName], list[Declared]] = defaultdict(list)
        for each in every:
            by_metric[each.application, each.objective.metric].append(each)
        self._of = by_metric
        self._seen.declare({each.id: each.objective for each in every})
        self._seen.demand.keep(application_id(a) for a in config.applications)
        self._boost = config.scheduling.boost
        if self._boost is None or self._boost.mode is not BoostMode.SLO:
            self._controller = self._decision = None
        elif self._controller is None:
            self._controller = Controller(self._boost.minimum_gamma, self._boost.maximum_gamma)
        else:
            self._controller.limit(self._boost.minimum_gamma, self._boost.maximum_gamma)
        if self._saved is not None:
            self._go_on_from(self._saved)
            self._saved = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Of gamma, in 1/s; None: the engine's own."""
        if self._controller is not None:
            return self._controller.bounds
        return None if self._boost is None else (self._boost.minimum_gamma, self._boost.maximum_gamma)

    # Requests. Moments are those of their clock.

    def arrived(self, ticket: Ticket) -> None:
        self._seen.demand.arrived(ticket.application, ticket.arrival + self._epoch)

    def first_token(self, ticket: Ticket, now: Seconds) -> None:
        """Of a streamed request."""
        self._observe(MetricName.TIME_TO_FIRST_TOKEN, ticket.application, now - ticket.arrival, now)

    def ended(self, ticket: Ticket, now: Seconds, *, completed: bool, engine: PolicyReport) -> None:
        """`engine`: what the policy inside it last told, with the engine seconds that a token takes."""
        age, application = now - ticket.arrival, ticket.application
        if ticket.streamed and ticket.first_token is None:
            self._late(MetricName.TIME_TO_FIRST_TOKEN, application, age, now)
        if not completed:
            self._late(MetricName.REQUEST_COMPLETION, application, age, now)
            return
        self._observe(MetricName.REQUEST_COMPLETION, application, age, now)
        if (pace := ticket.pace(now)) is not None:
            self._observe(MetricName.TIME_PER_OUTPUT_TOKEN, application, pace, now)
        if engine.prefill_time is not None and engine.decode_time is not None:
            took = ticket.prompt_tokens * engine.prefill_time + ticket.produced * engine.decode_time
            self._seen.demand.served(application, took)

    def run_ended(self, run: TrackedRun) -> None:
        """It was over when its last request was: that nothing comes after it is known later."""
        observe = self._late if run.aborted else self._observe
        observe(MetricName.RUN_COMPLETION, application_id(run.application), run.took, run.last_activity)

    def _observe(self, metric: MetricName, application: ApplicationId, value: Seconds, now: Seconds) -> None:
        for each in self._of.get((application, metric), ()):
            self._seen.observe(each.id, value, now + self._epoch)

    def _late(self, metric: MetricName, application: ApplicationId, age: Seconds, now: Seconds) -> None:
        """There will be no value."""
        for each in self._of.get((application, metric), ()):
            if age > each.objective.bound:
                self._seen.observe(each.id, age, now + self._epoch)

    # Decisions.

    def look(self, now: Seconds, tickets: Iterable[Ticket], engine: PolicyReport) -> bool:
        """Looks every `PERIOD` seconds: whether the bounds of gamma are others now. `engine`: what the
        policy inside it last told.
        """
        if self._looked is not None and now - self._looked < PERIOD:
            return False
        self._looked = now
        self._tell_open(now, tickets)
        if self._controller is None or engine.gamma_estimate is None:
            return False
        before = self._controller.bounds
        self._decision = self._controller.step(now + self._epoch, self._seen, engine.gamma_estimate)
        if self._controller.bounds == before:
            return False
        low, high = self._controller.bounds
        log.info("gamma is bounded", floor=low, ceiling=high, estimate=engine.gamma_estimate)
        return True

    def _tell_open(self, now: Seconds, tickets: Iterable[Ticket]) -> None:
        ages: defaultdict[tuple[ApplicationId, MetricName], list[Seconds]] = defaultdict(list)
        runs = set()
        for ticket in tickets:
            runs.add(ticket.run)
            ages[ticket.application, MetricName.REQUEST_COMPLETION].append(now - ticket.arrival)
            if ticket.streamed and ticket.first_token is None:
                ages[ticket.application, MetricName.TIME_TO_FIRST_TOKEN].append(now - ticket.arrival)
        for run in runs:
            ages[application_id(run.application), MetricName.RUN_COMPLETION].append(now - run.opened)
        for each in self.declared.values():
            if each.objective.metric.since_arrival:
                of = ages[each.application, each.objective.metric]
                self._seen.still_open(each.id, of, now + self._epoch)

    # What is told.

    def standings(self, now: Seconds) -> Iterator[Standing]:
        """Counts all of them: once for whatever is told at a moment."""
        for each in self.declared.values():
            decided = None if self._decision is None else self._decision.standings.get(each.id)
            unattainable = decided is not None and decided.state is ObjectiveState.UNATTAINABLE
            cohorts = counted(self._seen.watched[each.id], now + self._epoch)
            yield Standing(each, cohorts, unattainable, decided is not None and decided.opposed)

    def boost(self, engine: PolicyReport) -> BoostStatus | None:
        """None where the engine tells of no gamma."""
        if engine.gamma is None or engine.gamma_estimate is None:
            return None
        floor, ceiling = self.bounds or (LOWEST_GAMMA, HIGHEST_GAMMA)
        return BoostStatus(
            mode=BoostMode.ADAPTIVE if self._boost is None else self._boost.mode,
            gamma=engine.gamma,
            estimate=engine.gamma_estimate,
            floor=floor,
            ceiling=ceiling,
            needed=None if self._decision is None else self._decision.needed,
            replicas=None if self._decision is None else self._decision.replicas,
        )

    # Restarts.

    def pieces(self) -> Iterator[tuple[str, Any]]:
        """All that a restart is to keep, for JSON, by name; `restore` takes them together. Others may work between two
        of them: one takes milliseconds.
        """
        yield "controller", None if self._controller is None else self._controller.state()
        yield "demand", self._seen.demand.state()
        for key in list(self._seen.watched):
            if (watched := self._seen.watched.get(key)) is not None:
                yield f"{_WATCHED}{key}", watched.state()

    def restore(self, pieces: Mapping[str, Any]) -> None:
        """Go on from there once it is configured what is declared."""
        self._saved = pieces

    def _go_on_from(self, saved: Mapping[str, Any]) -> None:
        """Nothing of it, where that is not what `pieces` gave."""
        seen = Observations({each.id: each.objective for each in self.declared.values()})
        watched = {name.removeprefix(_WATCHED): each for name, each in saved.items() if name.startswith(_WATCHED)}
        try:
            seen.restore({"watched": watched, "demand": saved["demand"]})
            if self._controller is not None and saved["controller"] is not None:
                self._controller.restore(saved["controller"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.warning("what was counted of the objectives before is not understood", reason=repr(error))
            return
        self._seen = seen


def objective_status(standing: Standing) -> ObjectiveStatus:
    """For those who add up what pods counted."""
    namespace, name = standing.declared.application.split("/")
    return ObjectiveStatus(
        namespace=namespace,
        name=name,
        objective=standing.declared.config,
        counted=tuple(Counted(total=cohort.total, missed=cohort.missed) for cohort in standing.counted),
        values=tuple(standing.counted[0].values.state()),
        unattainable=standing.unattainable,
        opposed=standing.opposed,
    )


def _objective(config: ObjectiveConfig, weight: float) -> Objective:
    return Objective(config.metric, config.percentile / 100, config.bound_seconds, config.window_seconds, weight)
