"""Gamma controlled from objectives beside simulated engines, as the sidecar does it beside real ones.

It observes every value when it becomes known, tells which requests are open, asks the controller every
`slo.PERIOD` s, and bounds gamma in the policies of all engines. Their estimates of gamma count alike (geometric mean).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from justitia_scheduling.objectives.objective import Objective
from justitia_scheduling.objectives.observations import ObjectiveId, Observations
from justitia_scheduling.objectives.slo import PERIOD, GammaController, GammaDecision
from justitia_scheduling.policies.boost import Boosted
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.inference import Inference
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.objectives import MetricName
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import RequestId, Seconds


@dataclass(frozen=True, slots=True)
class Declared:
    """An objective from a moment on, for one application or all."""

    objective: Objective
    application: str | None = None
    since: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Look:
    """What the controller decided at a moment, and gamma in effect afterwards, in 1/s."""

    now: Seconds
    gamma: float
    decision: GammaDecision


class SloControl:
    """Controls gamma in these policies. Each of `changes` replaces the objective of the same name at its moment."""

    period: Seconds = PERIOD

    def __init__(
        self,
        policies: Sequence[Boosted | TieredJustitia],
        objectives: Mapping[ObjectiveId, Declared],
        changes: Sequence[tuple[ObjectiveId, Declared]] = (),
        controller: GammaController | None = None,
    ) -> None:
        self._policies = policies
        self._declared = dict(objectives)
        self._changes = sorted(changes, key=lambda change: change[1].since)
        self._controller = controller or GammaController()
        self.seen = Observations({key: d.objective for key, d in self._declared.items()})
        self._open: dict[RequestId, Inference] = {}
        self.looks: list[Look] = []

    def arrived(self, request: Inference, now: Seconds) -> None:
        self._open[request.id] = request
        self.seen.demand.arrived(request.run.application, now)

    def first_token(self, request: Inference, now: Seconds) -> None:
        self._observe(MetricName.TIME_TO_FIRST_TOKEN, request.run.application, now - request.ready, now)

    def finished(self, request: Inference, now: Seconds) -> None:
        del self._open[request.id]
        application, decoded = request.run.application, request.produced - 1
        self._observe(MetricName.REQUEST_COMPLETION, application, now - request.ready, now)
        if decoded:
            pace = (now - request.first_token) / decoded
            self._observe(MetricName.TIME_PER_OUTPUT_TOKEN, application, pace, now)
        times = self._policies[0].boosting.token_time
        engine_time = request.work.prompt_tokens * times.prefill() + request.produced * times.decode(1)
        self.seen.demand.served(application, engine_time)

    def run_finished(self, run: WorkloadRun, now: Seconds) -> None:
        self._observe(MetricName.RUN_COMPLETION, run.application, now - run.arrival, now)

    def look(self, now: Seconds) -> None:
        while self._changes and self._changes[0][1].since <= now:
            key, declared = self._changes.pop(0)
            self._declared[key] = declared
            self.seen.declare({k: d.objective for k, d in self._declared.items()})
        for key, declared in self._declared.items():
            self.seen.still_open(key, self._ages(declared, now), now)
        estimate = math.exp(sum(math.log(p.boosting.tail.estimate) for p in self._policies) / len(self._policies))
        decision = self._controller.step(now, self.seen, estimate, len(self._policies))
        for policy in self._policies:
            policy.tune({Knob.GAMMA_FLOOR: decision.floor, Knob.GAMMA_CEILING: decision.ceiling})
        self.looks.append(Look(now, self._policies[0].boosting.tail.gamma, decision))

    def _observe(self, metric: MetricName, application: str, value: Seconds, now: Seconds) -> None:
        for key, declared in self._declared.items():
            if declared.objective.metric is metric and declared.application in (None, application):
                self.seen.observe(key, value, now)

    def _ages(self, declared: Declared, now: Seconds) -> list[Seconds]:
        first = declared.objective.metric is MetricName.TIME_TO_FIRST_TOKEN
        return [
            now - request.ready
            for request in self._open.values()
            if declared.application in (None, request.run.application) and not (first and request.first_token >= 0)
        ]
