"""The objectives of a pool's applications: counts their values, and moves gamma by them where the pool asks for that.

An objective comes as its application declares it, and is watched as Objective (`justitia_scheduling.objectives`).
What this pod counted of it leaves as ObjectiveCounts, which the operator adds up over pods (`tally.py`).

A value is counted at the moment when its request, or its run, arrived. An open request is a miss once it is older than
the bound, and is not counted before. So is a request that ended without a value, because its client went away, the
engine failed or it waited too long. A run without open requests may be over: it counts when that is known.

Moments are seconds since 1970 by a clock that does not jump: the clock of requests, set once when the process starts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import structlog

from justitia_api.config import (
    ApplicationConfig,
    BoostConfig,
    BoostMode,
    PoolConfig,
    ServiceLevelObjective,
    boost_mode,
)
from justitia_api.status import BoostStatus, ObjectiveCounts, PartCounts
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.objectives.attainment import Attainment, attainment, counted
from justitia_scheduling.objectives.objective import Objective
from justitia_scheduling.objectives.observations import ObjectiveId, Observations
from justitia_scheduling.objectives.slo import PERIOD, GammaController, GammaDecision
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import TrackedRun
from justitia_vocabulary.objectives import MetricName
from justitia_vocabulary.policies import WITHOUT_WEIGHTS
from justitia_vocabulary.units import ApplicationId, Seconds

_WATCHED = "watched "

log = structlog.get_logger("justitia.sidecar")


class Objectives:
    """The objectives of the configuration in effect. `epoch` is the time of day at 0 of the clock of requests."""

    def __init__(self, epoch: Seconds) -> None:
        self._epoch = epoch
        self._seen = Observations({})
        self._boost: BoostConfig | None = None
        self._inside_shares = False
        self._boosted_for: dict[ApplicationId, Seconds] = {}
        self._controller: GammaController | None = None
        self._decision: GammaDecision | None = None
        self._looked: Seconds | None = None
        self._saved: Mapping[str, Any] | None = None
        self._declared: Mapping[ObjectiveId, tuple[ApplicationConfig, ServiceLevelObjective]] = {}
        self._by_metric: Mapping[tuple[ApplicationId, MetricName], list[ObjectiveId]] = {}

    def configure(self, config: PoolConfig) -> None:
        """Keep what was counted of objectives that stay, and gamma."""
        weights = {tenant.name: tenant.weight for tenant in config.tenants}
        self._declared = {
            f"{application.id} {each.metric} P{each.percentile}": (application, each)
            for application in config.applications
            for each in application.objectives
        }
        by_metric: defaultdict[tuple[ApplicationId, MetricName], list[ObjectiveId]] = defaultdict(list)
        for key, (application, each) in self._declared.items():
            by_metric[application.id, each.metric].append(key)
        self._by_metric = by_metric
        self._seen.declare(
            {key: _objective(each, weights.get(a.tenant, 1.0)) for key, (a, each) in self._declared.items()}
        )
        self._boosted_for = {}
        for application in config.applications:
            lasts = [
                each.bound_milliseconds / 1000 if each.metric.since_arrival else config.queue.timeout_seconds
                for each in application.objectives
                if each.metric.of_requests
            ]
            if lasts:
                self._boosted_for[application.id] = max(lasts)
        self._seen.demand.keep(a.id for a in config.applications)
        mode = boost_mode(config.scheduling)
        self._boost = None if mode is None else config.scheduling.boost or BoostConfig()
        self._inside_shares = config.scheduling.policy not in WITHOUT_WEIGHTS
        if self._boost is None or mode is not BoostMode.SLO:
            self._controller = self._decision = None
        elif self._controller is None:
            self._controller = GammaController(self._boost.minimum_gamma, self._boost.maximum_gamma)
        else:
            self._controller.limit(self._boost.minimum_gamma, self._boost.maximum_gamma)
        if self._saved is not None:
            self._go_on_from(self._saved)
            self._saved = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The bounds of gamma, in 1/s. None under a policy without gamma."""
        if self._controller is not None:
            return self._controller.bounds
        return None if self._boost is None else (self._boost.minimum_gamma, self._boost.maximum_gamma)

    def boosted_for(self, application: ApplicationId) -> Seconds | None:
        """How long from its arrival a request of the application is ordered by its objectives for single requests: as
        long as the largest bound can be met. The bound of a pace can be for as long as the request waits. None without
        such an objective.
        """
        return self._boosted_for.get(application)

    # Requests. Moments are those of their clock.

    def arrived(self, request: TrackedRequest) -> None:
        self._seen.demand.arrived(request.application, request.timing.arrival + self._epoch)

    def refused(self, application: ApplicationId, expected: Mapping[MetricName, Seconds], now: Seconds) -> None:
        """Note a request that is refused because it was expected to show these values: it misses what they are beyond
        of, so that refusing makes no objective look met.
        """
        self._seen.demand.arrived(application, now + self._epoch)
        for metric, value in expected.items():
            for key in self._by_metric.get((application, metric), ()):
                self._seen.refused(key, value, now + self._epoch)

    def first_token(self, request: TrackedRequest, now: Seconds) -> None:
        """Note the first token of a streamed request."""
        self._observe(MetricName.TIME_TO_FIRST_TOKEN, request.application, request.age(now), now)

    def ended(self, request: TrackedRequest, now: Seconds, *, completed: bool, engine: PolicyReport) -> None:
        """Note the end of a request. `engine` is the last report of the policy inside it, which says how much time of
        the engine a token takes.
        """
        age, application = request.age(now), request.application
        if request.asks.streamed and request.timing.first_token is None:
            self._late(MetricName.TIME_TO_FIRST_TOKEN, application, age, now)
        if not completed:
            self._late(MetricName.REQUEST_COMPLETION, application, age, now)
            return
        self._observe(MetricName.REQUEST_COMPLETION, application, age, now)
        if (pace := request.pace(now)) is not None:
            self._observe(MetricName.TIME_PER_OUTPUT_TOKEN, application, pace, now)
        if engine.prefill_time is not None and engine.decode_time is not None:
            took = request.account.prompt * engine.prefill_time + request.account.produced * engine.decode_time
            self._seen.demand.served(application, took)

    def run_ended(self, run: TrackedRun) -> None:
        """Note the end of a run. It was over when its last request was; that nothing follows is known later."""
        observe = self._late if run.aborted else self._observe
        observe(MetricName.RUN_COMPLETION, run.application.id, run.took, run.last_activity)

    def _observe(self, metric: MetricName, application: ApplicationId, value: Seconds, now: Seconds) -> None:
        for key in self._by_metric.get((application, metric), ()):
            self._seen.observe(key, value, now + self._epoch)

    def _late(self, metric: MetricName, application: ApplicationId, age: Seconds, now: Seconds) -> None:
        """Count a miss where a value that will never come was late already."""
        for key in self._by_metric.get((application, metric), ()):
            if age > self._seen.watched[key].objective.bound:
                self._seen.observe(key, age, now + self._epoch)

    # Decisions.

    def look(self, now: Seconds, requests: Iterable[TrackedRequest], engine: PolicyReport) -> bool:
        """Look, every `PERIOD` seconds, at what was seen. Returns whether the bounds of gamma have changed. `engine` is
        the last report of the policy inside it.
        """
        if self._looked is not None and now - self._looked < PERIOD:
            return False
        self._looked = now
        self._count_open(now, requests)
        if self._controller is None or engine.gamma_estimate is None:
            return False
        before = self._controller.bounds
        self._decision = self._controller.step(now + self._epoch, self._moving_gamma(), engine.gamma_estimate)
        if self._controller.bounds == before:
            return False
        low, high = self._controller.bounds
        log.info("the objectives set new bounds of gamma", floor=low, ceiling=high, estimate=engine.gamma_estimate)
        return True

    def _moving_gamma(self) -> Observations:
        """What gamma follows. Inside shares it does nothing for whole runs, so their objectives do not move it."""
        if not self._inside_shares:
            return self._seen
        moving = Observations({})
        moving.watched = {key: w for key, w in self._seen.watched.items() if w.objective.metric.of_requests}
        moving.demand = self._seen.demand
        return moving

    def _count_open(self, now: Seconds, requests: Iterable[TrackedRequest]) -> None:
        ages: defaultdict[tuple[ApplicationId, MetricName], list[Seconds]] = defaultdict(list)
        runs = set()
        for request in requests:
            runs.add(request.run)
            ages[request.application, MetricName.REQUEST_COMPLETION].append(request.age(now))
            if request.asks.streamed and request.timing.first_token is None:
                ages[request.application, MetricName.TIME_TO_FIRST_TOKEN].append(request.age(now))
        for run in runs:
            ages[run.application.id, MetricName.RUN_COMPLETION].append(now - run.opened)
        for (application, metric), keys in self._by_metric.items():
            for key in keys if metric.since_arrival else ():
                self._seen.still_open(key, ages[application, metric], now + self._epoch)

    # What is reported.

    def counts(self, now: Seconds) -> Iterator[ObjectiveCounts]:
        """What this pod counted of each objective. The counts of several pods add up."""
        for key, (application, objective) in self._declared.items():
            parts = counted(self._seen.watched[key], now + self._epoch)
            unattainable, opposed = self._given_up(key)
            yield ObjectiveCounts(
                namespace=application.namespace,
                name=application.name,
                objective=objective,
                counted=tuple(PartCounts(total=part.total, missed=part.missed) for part in parts),
                values=tuple(parts[0].values.state()),
                unattainable=unattainable,
                opposed=opposed,
            )

    def attained(self, now: Seconds) -> Iterator[tuple[ApplicationConfig, ServiceLevelObjective, Attainment]]:
        """How each objective stands in this pod alone, without the value at the percentile."""
        for key, (application, objective) in self._declared.items():
            parts = counted(self._seen.watched[key], now + self._epoch, values=False)
            unattainable, opposed = self._given_up(key)
            share = objective.percentile / 100
            yield application, objective, attainment(share, parts, unattainable=unattainable, opposed=opposed)

    def _given_up(self, key: ObjectiveId) -> tuple[bool, bool]:
        """Whether no gamma meets the objective, and whether that is because another one asks for the opposite."""
        decided = None if self._decision is None else self._decision.standings.get(key)
        if decided is None:
            return False, False
        return decided.unattainable, decided.opposed

    def boost(self, engine: PolicyReport) -> BoostStatus | None:
        """Gamma in effect, and what bounds it. None where the engine reports no gamma, and where it orders nothing:
        inside shares without objectives for single requests.
        """
        if engine.gamma is None or engine.gamma_estimate is None or (self._inside_shares and not self._boosted_for):
            return None
        how = self._boost or BoostConfig()
        floor, ceiling = self.bounds or (how.minimum_gamma, how.maximum_gamma)
        return BoostStatus(
            mode=how.mode,
            gamma=engine.gamma,
            estimate=engine.gamma_estimate,
            floor=floor,
            ceiling=ceiling,
            needed=None if self._decision is None else self._decision.needed,
            replicas=None if self._decision is None else self._decision.replicas,
        )

    # Restarts.

    def pieces(self) -> Iterator[tuple[str, Any]]:
        """All that a restart has to keep, as named pieces for JSON; `restore` takes them together. A piece takes
        milliseconds, and others may work between two of them.
        """
        yield "controller", None if self._controller is None else self._controller.state()
        yield "demand", self._seen.demand.state()
        for key in list(self._seen.watched):
            if (watched := self._seen.watched.get(key)) is not None:
                yield f"{_WATCHED}{key}", watched.state()

    def restore(self, pieces: Mapping[str, Any]) -> None:
        """Go on from there, once `configure` says what is declared."""
        self._saved = pieces

    def _go_on_from(self, saved: Mapping[str, Any]) -> None:
        """Take what was saved, or nothing of it where it is not what `pieces` gave."""
        seen = Observations({key: watched.objective for key, watched in self._seen.watched.items()})
        watched = {name.removeprefix(_WATCHED): each for name, each in saved.items() if name.startswith(_WATCHED)}
        try:
            seen.restore({"watched": watched, "demand": saved["demand"]})
            if self._controller is not None and saved["controller"] is not None:
                self._controller.restore(saved["controller"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.warning("saved counts of objectives not understood: counting starts again", reason=repr(error))
            return
        self._seen = seen


def _objective(declared: ServiceLevelObjective, weight: float) -> Objective:
    share, bound = declared.percentile / 100, declared.bound_milliseconds / 1000
    return Objective(declared.metric, share, bound, declared.window_seconds, weight)
